"""LoopSettings: the settings of an agent's loop; ExtraTools: tools that a team adds to them in one run."""

__all__ = ["EXTRA_TOOLS", "ExtraTools", "Instructions", "LoopSettings"]

from collections.abc import Awaitable, Callable

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.output import AnswerReader
from ziggurat.agents.output_validator import OutputValidator
from ziggurat.agents.stop import Policy, any_of
from ziggurat.core.context import Context
from ziggurat.core.scope import Key
from ziggurat.core.service import Service
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.tools.toolbox import Toolbox

Instructions = str | Callable[[Context], str | Awaitable[str]] | None


class LoopSettings(Struct, frozen=True, eq=False):
    """The settings of a loop; see Agent for the meaning of each."""

    name: str
    model: Service[ModelRequest, ModelResponse]
    model_name: str
    tools: Toolbox
    specs: tuple[ToolSpec, ...]
    instructions: Instructions
    settings: ModelSettings
    output: AnswerReader | None
    policy: Policy | None
    max_steps: int
    timeout: float | None
    validator: OutputValidator | None = None

    @property
    def checks_answers(self) -> bool:
        """Whether answers must be read or validated, and not only passed on as text."""
        return self.output is not None or self.validator is not None


class ExtraTools(Struct, frozen=True, eq=False):
    """Tools for the agents at one depth of a run; agents further below do not get them.

    Attributes:
        depth: How many agents are around those that get the tools.
        tools: The tools.
        stop: A policy that is asked before the agent's own.
    """

    depth: int
    tools: Toolbox
    stop: Policy

    def added(self, settings: LoopSettings) -> LoopSettings:
        """Return the settings of a loop with these tools.

        Raises:
            ConfigurationError: the agent has a tool of the same name.
        """
        return replace(
            settings,
            tools=settings.tools.joined(self.tools),
            specs=(*settings.specs, *self.tools.specs),
            policy=self.stop if settings.policy is None else any_of(self.stop, settings.policy),
        )


EXTRA_TOOLS: Key[ExtraTools] = Key("extra tools")
