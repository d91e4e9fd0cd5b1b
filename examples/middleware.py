"""Middleware is inherited: what is given to an agent stands around every call beneath it, at any depth."""

import asyncio
import re

from msgspec.structs import replace

from ziggurat import Agent, Context, Middleware, ModelRequest, ToolResult
from ziggurat.messages.parts import tool_call
from ziggurat.testing import ScriptedModel


class Redaction(Middleware):
    """Keeps numbers of cards out of what models see."""

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        return replace(result, content=re.sub(r"\b\d{4}(?: \d{4}){3}\b", "[card]", result.text))


class Log(Middleware):
    """Tells what is asked, and where."""

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        print(f"{ctx.path}: {request.messages[-1].role}")

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        print(f"{ctx.path}: {error}")


def account(name: str) -> str:
    """Look up the account of a customer."""
    if name != "Ada":
        raise KeyError(name)
    return "Ada pays with 4000 1234 5678 9010"


clerk_model = ScriptedModel(tool_call("account", name="Bob"), tool_call("account", name="Ada"), "With a card.")
clerk = Agent(clerk_model, tools=[account], name="clerk")
desk = Agent(
    ScriptedModel(tool_call("clerk", input="How does Ada pay?"), "By card."),
    tools=[clerk],
    name="desk",
    middleware=[Redaction(), Log()],
)


async def main() -> None:
    run = await desk.run("How does Ada pay?")
    print(run.text)
    print("the clerk's model saw:", clerk_model.last.messages[-1].tool_results[0].text)


if __name__ == "__main__":
    asyncio.run(main())
