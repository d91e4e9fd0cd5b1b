"""How the output of a run is recorded, and read again."""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ziggurat.core.codec import canonical, plain
from ziggurat.core.errors import JournalCorrupt
from ziggurat.core.failures import noting_mistakes
from ziggurat.messages.agent import AgentRun
from ziggurat.tools.parameter import Parameter


class OutputForm(Struct, frozen=True, eq=False):
    """The output of an agent or a flow as it is recorded, and as it is read."""

    parameter: Parameter

    def keep(self, run: AgentRun) -> AgentRun:
        """Return a run as it is recorded: with the JSON of its output, where its own is not read back as it is.

        Raises:
            ConfigurationError: the output has no JSON that is.
        """
        with noting_mistakes():  # of the output's type
            form = self.parameter.recorded(run.output, *(() if run._accepted is UNSET else (run._accepted,)))
        try:
            natural = form == plain(run.output) and canonical(form) == canonical(run.output)
        except TypeError:
            natural = False
        accepted = UNSET if natural else form
        return run if accepted is run._accepted else replace(run, _accepted=accepted)

    def read(self, run: AgentRun) -> AgentRun:
        """Return a recorded run with its output in its type."""
        try:
            output = self.parameter.revive(run.output if run._accepted is UNSET else run._accepted)
        except ValueError as error:
            raise JournalCorrupt(f"the recorded output is not of the type it has now: {error}") from error
        return replace(run, output=output)
