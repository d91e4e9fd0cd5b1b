"""Layers: built-in ones and a custom one, around a model, a tool and an agent."""

import asyncio

from ziggurat import Agent, Context, ModelRequest, ModelResponse, Service, layer, stack, tool
from ziggurat.layers import fallback, retry, steer, tap, timeout
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel


@layer
async def counted(
    request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse], *, label: str
) -> ModelResponse:
    """Print how many messages each request has; settings appear in the printed stack."""
    print(f"{label}: {len(request.messages)} messages at {ctx.path}")
    return await model(request, ctx)


@tool
async def weather(city: str) -> str:
    """Forecast for a city."""
    return f"{city}: rain"


async def main() -> None:
    lost = ConnectionError("gone")
    flaky = ScriptedModel(lost, tool_call("weather", city="Rome"), lost, lost, name="flaky")
    spare = ScriptedModel(always="Take an umbrella.", name="spare")
    careful = fallback(stack(flaky, retry(attempts=2, base=0.01), timeout(seconds=30)), spare)
    model = stack(
        steer(lambda request, ctx: "long" if len(request.messages) > 9 else "short", short=careful, long=spare),
        counted(label="asked"),
        tap(on_response=lambda response, ctx: print("said:", response.text or "a tool, please")),
    )
    print(model)
    agent = Agent(model, tools=[stack(weather, timeout(seconds=5))])
    run = await agent.layered(timeout(seconds=90)).run("Do I need an umbrella in Rome?")
    print(run.text)


if __name__ == "__main__":
    asyncio.run(main())
