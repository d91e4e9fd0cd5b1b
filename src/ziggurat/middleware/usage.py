"""Accounting of usage by model, agent and tool."""

from msgspec import Struct, field

from ziggurat.core.context import Context
from ziggurat.core.errors import fact_of
from ziggurat.core.settings import checked
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolResult
from ziggurat.messages.usage import Usage


class UsageLedger(Struct):
    """Sums over all runs that use the same accounts.

    Attributes:
        models: Usage by the model that answered; usage of failed tries under ``"(failed)"``.
        agents: Usage by agent, including the agents below it.
        runs: The number of runs of each agent that ended.
        tools: The number of calls of each tool.
        tool_errors: The number of failed calls of each tool.
    """

    models: dict[str, Usage] = field(default_factory=dict)
    agents: dict[str, Usage] = field(default_factory=dict)
    runs: dict[str, int] = field(default_factory=dict)
    tools: dict[str, int] = field(default_factory=dict)
    tool_errors: dict[str, int] = field(default_factory=dict)

    @property
    def total(self) -> Usage:
        """The usage of all models together."""
        return sum(self.models.values(), Usage())


class UsageAccounting(Middleware):
    """Adds up the usage of all calls below; recorded answers are not counted again.

    ::

        accounts = UsageLedger()
        Agent(model, middleware=[UsageAccounting(accounts)])

    Args:
        accounts: Holds the sums; you create it, so you decide how long it lives and what shares it.

    Raises:
        ConfigurationError: it is not an `UsageLedger`.
    """

    @checked
    def __init__(self, accounts: UsageLedger) -> None:
        self.accounts = accounts

    async def after_model(self, response: ModelResponse, ctx: Context) -> None:
        """Count the usage of a reply."""
        _add(self.accounts.models, response.model or "(unnamed)", response.usage)

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        """Count the usage of a failed call, if known."""
        if (usage := fact_of(error, "usage", Usage)) is not None:
            _add(self.accounts.models, "(failed)", usage)

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        """Count a tool call."""
        tools, errors = self.accounts.tools, self.accounts.tool_errors
        tools[result.name] = tools.get(result.name, 0) + 1
        if result.error is not None:
            errors[result.name] = errors.get(result.name, 0) + 1

    async def after_agent(self, run: AgentRun, ctx: Context) -> None:
        """Count an agent's run, unless it is replayed."""
        if ctx.replayed:
            return
        runs = self.accounts.runs
        runs[run.agent] = runs.get(run.agent, 0) + 1
        _add(self.accounts.agents, run.agent, run.usage)


def _add(sums: dict[str, Usage], name: str, usage: Usage) -> None:
    sums[name] = sums.get(name, Usage()) + usage
