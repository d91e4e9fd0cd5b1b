"""The settings of a loop, with the tools that are added to those of the agent in one run."""

from collections.abc import Awaitable, Callable, Iterable, Set
from typing import Annotated

import msgspec
from msgspec import Meta

from ziggurat.agents.output import AnswerReader
from ziggurat.agents.reply import OutputValidator
from ziggurat.agents.stop import Policy, any_of, tools_in
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.context import Context, Key
from ziggurat.core.service import Service, fact
from ziggurat.core.similar import check_patterns
from ziggurat.messages.message import ToolResult
from ziggurat.messages.model import ModelRequest, ModelResponse, ModelSettings, ToolSpec
from ziggurat.messages.usage import Budget
from ziggurat.tools.approval import APPROVALS, Approvals
from ziggurat.tools.entry import SEARCH_TOOLS, offered
from ziggurat.tools.toolbox import TOOLS, Toolbox

Instructions = str | Annotated[Callable[[Context], str | Awaitable[str]], Meta(title="function of (ctx)")] | None


class LoopSettings(msgspec.Struct, frozen=True, eq=False):
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
    hidden: frozenset[str] = frozenset()
    checks_names: Callable[..., None] | None = None

    async def with_offered(self, ctx: Context) -> "LoopSettings":
        offer = await offered(self.tools.sources, [spec.name for spec in self.specs], ctx)
        more = Toolbox(offer.tools)
        box, specs = self.tools.joined(more), (*self.specs, *more.specs)
        if self.checks_names is not None:
            self.checks_names({spec.name for spec in specs}, box)
        return msgspec.structs.replace(self, tools=box, specs=specs, hidden=offer.hidden)

    def check_given(self, ctx: Context) -> None:
        if self.checks_names is not None and not ctx.scope[AGENT_CALL].depth:
            for approvals in ctx.scope.get(APPROVALS) or ():
                self.checks_names({spec.name for spec in self.specs}, self.tools, approvals=approvals)


_NEVER = any_of()


class ExtraTools(msgspec.Struct, frozen=True, eq=False):
    """Tools for the agents at one depth of a run; agents further below do not get them."""

    depth: int
    tools: Toolbox
    stop: Policy

    def added(self, settings: LoopSettings) -> LoopSettings:
        return msgspec.structs.replace(
            settings,
            tools=settings.tools.joined(self.tools),
            specs=(*settings.specs, *self.tools.specs),
            policy=self.stop if settings.policy is None else any_of(self.stop, settings.policy),
        )


EXTRA_TOOLS: Key[ExtraTools] = Key("extra tools")


def lending(ctx: Context, box: Toolbox, at: Context, stop: Policy = _NEVER) -> Context:
    return at.within(EXTRA_TOOLS, ExtraTools(ctx.scope[AGENT_CALL].depth + 1, box, stop))


def found_in(results: Iterable[ToolResult]) -> set[str]:
    found = [each.value() for each in results if each.name == SEARCH_TOOLS and each.error is None]
    tools = [tool for each in found if isinstance(each, list) for tool in each if isinstance(tool, dict)]
    return {str(tool.get("name")) for tool in tools}


_MISSPELT = 0.7
"""The likeness from which a name is refused; others may be of a tool that a team or a client lends."""


def check_tool_names(
    agent: str, own: Set[str], box: Toolbox, approvals: Approvals | None, budget: Budget | None, stop: Policy | None
) -> None:
    """Warn once of each name and pattern that matches no tool of an agent or of the agents in its tools."""
    # One that differs in few letters from the name of a tool is refused: an approval that never matches is dangerous.
    asked = () if approvals is None else [rule.pattern for rule in approvals.rules if rule.stage == "tool"]
    given = {"Approvals": asked, "Budget(tools=...)": () if budget is None else budget.tools, "stop": tools_in(stop)}
    names = {*own, *_nested(box)}
    nested = any(entry.composite for entry in box.entries.values())
    for where, patterns in given.items():
        check_patterns(f"{where}: {agent!r}", patterns, names, None if nested else _MISSPELT)


def _nested(box: Toolbox) -> Iterable[str]:
    for entry in box.entries.values():
        if entry.composite and (inner := fact(entry.service, TOOLS)) is not None:
            yield from inner
            yield from _nested(inner)
