import pytest

from ziggurat import Agent, ConfigurationError, Context, Key, ModelRequest
from ziggurat.middleware import DynamicPrompt
from ziggurat.testing import ScriptedModel

USER = Key[str]("user")


async def test_instructions_come_of_the_request_and_the_context() -> None:
    model = ScriptedModel("ok")
    prompt = DynamicPrompt(lambda request, ctx: f"{request.instructions} The user is {ctx.scope[USER]}.")
    await Agent(model, instructions="Be kind.", middleware=[prompt]).run("go", deps={USER: "Ada"})
    assert model.last.instructions == "Be kind. The user is Ada."


async def test_none_leaves_them_and_the_function_may_be_async() -> None:
    async def write(request: ModelRequest, ctx: Context) -> str | None:
        return None

    model = ScriptedModel("ok")
    await Agent(model, instructions="Be kind.", middleware=[DynamicPrompt(write)]).run("go")
    assert model.last.instructions == "Be kind."


async def test_mistakes_are_told_of() -> None:
    with pytest.raises(ConfigurationError, match="is a function of 2 arguments; got"):
        DynamicPrompt("text")  # type: ignore[arg-type]
    agent = Agent(ScriptedModel("x"), middleware=[DynamicPrompt(lambda request, ctx: 3)])  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigurationError, match="returns text or None, got 3"):
        await agent.run("go")
