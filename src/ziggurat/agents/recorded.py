"""How the output of a run is recorded, and read again."""

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct
from msgspec.structs import replace

from ziggurat.core.codec import canonical, decode, encode, plain
from ziggurat.core.errors import InvalidArguments, JournalCorrupt
from ziggurat.core.failures import noting_mistakes
from ziggurat.messages.agent import AgentRun, Out
from ziggurat.tools.parameter import Parameter

if TYPE_CHECKING:
    from typing_extensions import TypeForm


def encode_run(run: AgentRun) -> bytes:
    """Return a run as JSON, such as for a column of your own database; `decode_run` reads it back equal.

    Raises:
        TypeError: its output has no JSON form.
    """
    return encode(run)


def decode_run(data: bytes | str, output: "TypeForm[Out]") -> AgentRun[Out]:
    """Return the run that `encode_run` wrote::

        saved = encode_run(await agent.run("Where?"))
        city = decode_run(saved, City).output

    Args:
        data: The JSON.
        output: The type of its output, that of the agent.

    Raises:
        InvalidArguments: it is no run in JSON, or its output is of another type; the text names the place.
    """
    try:
        run = decode(data, AgentRun)
        form = OutputForm(Parameter.of_result("the output", output))
        return run if run._output is None else form.read(run)
    except JournalCorrupt as error:
        raise InvalidArguments(f"this is no run of encode_run() with an output of {output!r:.100}: {error}") from None


class OutputForm(Struct, frozen=True, eq=False):
    """The output of an agent or a flow as it is recorded, and as it is read."""

    parameter: Parameter

    def keep(self, run: AgentRun) -> AgentRun:
        """Return a run as it is recorded: with the JSON of its output, where its own is not read back as it is.

        Raises:
            ConfigurationError: the output has no JSON that is.
        """
        with noting_mistakes():  # of the output's type
            output = run._output
            form = self.parameter.recorded(output, *(() if run._accepted is UNSET else (run._accepted,)))
        try:
            natural = form == plain(output) and canonical(form) == canonical(output)
        except TypeError:  # such as of a pattern in it, which only its type can write
            return replace(run, output=form, _accepted=form)
        accepted = UNSET if natural else form
        return run if accepted is run._accepted else replace(run, _accepted=accepted)

    def read(self, run: AgentRun) -> AgentRun:
        try:
            output = self.parameter.revive(run._output if run._accepted is UNSET else run._accepted)
        except ValueError as error:
            raise JournalCorrupt(f"the recorded output is not of the type it has now: {error}") from error
        return replace(run, output=output)
