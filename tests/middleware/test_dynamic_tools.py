import pytest

from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, Context, ModelRequest, ModelSettings
from ziggurat.messages import tool_call
from ziggurat.middleware import AllowTools, DynamicTools
from ziggurat.testing import ScriptedModel

ran: list[str] = []


def read_file() -> str:
    """Read."""
    ran.append("read")
    return "x"


def delete_file() -> str:
    """Delete."""
    ran.append("delete")
    return "gone"


def seen_by(model: ScriptedModel) -> list[list[str]]:
    return [[tool.name for tool in request.tools] for request in model.calls]


async def test_what_is_not_allowed_is_hidden_and_refused_at_any_depth() -> None:
    ran.clear()
    deep = ScriptedModel(tool_call("delete_file"), tool_call("read_file"), "ok")
    inner = Agent(deep, tools=[read_file, delete_file], name="inner")
    model = ScriptedModel(tool_call("inner", input="go"), tool_call("delete_file"), "ok")
    agent = Agent(model, tools=[inner, delete_file], middleware=[AllowTools("read_*", "inner")])
    run = await agent.run("go")
    assert seen_by(model)[0] == ["inner"]
    assert seen_by(deep)[0] == ["read_file"]
    assert ran == ["read"]
    result = run.trace()[1].results[0]
    assert result.error == "denied"
    assert result.text == "the tool 'delete_file' is not allowed here; allowed: read_*, inner"


async def test_nothing_allowed_is_nothing_shown_but_an_answer_may_be_given() -> None:
    model = ScriptedModel(tool_call("final_answer", value=3))
    agent = Agent(model, tools=[read_file], output=int, middleware=[AllowTools()])
    assert (await agent.run("go")).output == 3
    assert seen_by(model) == [["final_answer"]]


async def test_a_choice_that_is_hidden_is_not_forced() -> None:
    for choice in ("read_file", "required"):
        model = ScriptedModel("ok")
        agent = Agent(model, tools=[read_file], settings=ModelSettings(tool_choice=choice), middleware=[AllowTools()])
        await agent.run("go")
        assert model.last.settings.tool_choice is None


async def test_tools_are_chosen_for_each_step() -> None:
    async def choose(request: ModelRequest, ctx: Context) -> list[str]:
        return ["read_file", "nonsense"] if len(request.messages) == 1 else ["read_file", "delete_file"]

    model = ScriptedModel(tool_call("read_file"), "ok")
    agent = Agent(model, tools=[read_file, delete_file], middleware=[DynamicTools(choose)])
    await agent.run("go")
    assert seen_by(model) == [["read_file"], ["read_file", "delete_file"]]


async def test_a_chosen_name_that_no_tool_has_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    model = ScriptedModel("ok")
    chosen = DynamicTools(lambda request, ctx: ["raed_file", "delete_file"])
    await Agent(model, tools=[read_file, delete_file], middleware=[chosen]).run("go")
    assert seen_by(model) == [["delete_file"]]
    assert "did you mean 'read_file'" in caplog.text


async def test_mistakes_are_told_of() -> None:
    with pytest.raises(ConfigurationError, match="read_"):
        AllowTools("")
    with pytest.raises(ConfigurationError, match="is a function of 2 arguments; got"):
        DynamicTools(["x"])  # type: ignore[arg-type]
    for chosen in ("read_file", None, 3):
        choose = DynamicTools(wrong(lambda request, ctx, chosen=chosen: chosen))
        with pytest.raises(ConfigurationError, match=f"returns a list of names, got {chosen!r}"):
            await Agent(ScriptedModel("x"), tools=[read_file], middleware=[choose]).run("go")
