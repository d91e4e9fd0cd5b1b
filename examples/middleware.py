"""Middleware: given to one agent, it wraps every call below that agent, at any depth."""

import asyncio

from ziggurat import Agent, Context, Middleware, ModelRequest
from ziggurat.layers import timeout
from ziggurat.messages import tool_call
from ziggurat.middleware import OutputGuardrail, Redaction, everywhere
from ziggurat.observe import Metrics
from ziggurat.testing import ScriptedModel


class Log(Middleware):
    """Prints each model request and each error with its path; override only the hooks you need."""

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        print(f"{ctx.path}: {request.messages[-1].role}")

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        print(f"{ctx.path}: {error}")


def account(name: str) -> str:
    """Look up the account of a customer."""
    if name != "Ada":
        raise KeyError(name)
    return "Ada pays with 4000 1234 5678 9010"


def polite(text: str, ctx: Context) -> str | None:
    return None if text.endswith(".") else "end with a full stop"


clerk_model = ScriptedModel(tool_call("account", name="Bob"), tool_call("account", name="Ada"), "With a card.")
clerk = Agent(clerk_model, tools=[account], name="clerk")
metrics = Metrics()
desk = Agent(
    ScriptedModel(tool_call("clerk", input="How does Ada pay?"), "by card", "By card."),
    tools=[clerk],
    name="desk",
    middleware=[
        Redaction(patterns=[r"\b[0-9]{4}(?: [0-9]{4}){3}\b"], mask="[card]"),
        Log(),
        metrics,
        OutputGuardrail(polite),
        everywhere(tool=[timeout(seconds=10)]),
    ],
)


async def main() -> None:
    print((await desk.run("How does Ada pay?")).text)
    print("the clerk's model saw:", clerk_model.last.messages[-1].tool_results[0].text)
    for name, tool in metrics.tools.items():
        print(f"{name}: {tool.calls} calls, {tool.failure_rate:.0%} failed")


if __name__ == "__main__":
    asyncio.run(main())
