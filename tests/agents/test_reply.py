import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from tests.agents.support import assert_sendable, elsewhere, said, streamed, timeless
from ziggurat import Agent, ConfigurationError, Context, Key, ModelResponse, Toolbox, raw_tool, tool
from ziggurat.errors import ModelRetry
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.model import OutputMode
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel, ScriptedReply


class City(Struct):
    name: str
    people: int = 0


LARGEST: Key[int] = Key("largest")


async def small(city: City, ctx: Context) -> City:
    """Accept small cities, with a capital."""
    await asyncio.sleep(0)
    if city.people > ctx.scope[LARGEST]:
        raise ModelRetry("name a smaller one")
    return City(city.name.title(), city.people)


def _city(name: str, people: int) -> Any:
    return tool_call("final_answer", name=name, people=people)


async def test_a_typed_value_and_the_context_go_in_and_a_value_or_another_try_comes_out() -> None:
    def agent(store: InMemoryStore | None = None) -> Agent:
        model = ScriptedModel(_city("ur", 9), _city("eridu", 3))
        return Agent(model, output=City, output_validator=small, store=store)

    store = InMemoryStore()
    plain = await agent().run("go", deps={LARGEST: 5})
    run, heard = await streamed(agent(), "go", deps={LARGEST: 5})
    await agent(store).run("go", run_id="r", deps={LARGEST: 5})
    again = await agent(elsewhere(store, "r")).resume("r")
    replayed = await agent(elsewhere(store, "r")).replay("r")
    assert timeless(plain) == timeless(run)
    assert heard.own("agent/") == said(run)
    for each in (plain, run, again, replayed):
        assert (each.output, each.model_calls, each.steps) == (City("Eridu", 3), 2, 1)
        assert "name a smaller one" in each.observations
        assert_sendable(each.messages)


async def test_an_interrupted_run_does_not_validate_an_answer_twice() -> None:
    seen: list[Any] = []

    def validate(value: int, ctx: Context) -> None:
        seen.append(value)
        if value == 1:
            raise ModelRetry("more")

    store = InMemoryStore()
    replies: list[ScriptedReply] = [tool_call("final_answer", value=1), ConnectionError("gone")]
    first = await Agent(ScriptedModel(*replies), output=int, output_validator=validate, store=store).run(
        "go", run_id="r"
    )
    assert isinstance(first.stop, stops.Failed)
    later = Agent(
        ScriptedModel(tool_call("final_answer", value=2)),
        output=int,
        output_validator=validate,
        store=elsewhere(store, "r"),
    )
    assert (await later.resume("r")).output == 2
    assert seen == [1, 2]


def test_text_is_validated_too_and_none_leaves_it_as_it_is() -> None:
    def polite(text: str, ctx: Context) -> str | None:
        if "fool" in text:
            raise ModelRetry("be polite")
        return text.upper() if "x" in text else None

    for last, expected in (("sir", "sir"), ("xyz", "XYZ")):
        model = ScriptedModel("you fool", last)
        run = Agent(model, output_validator=polite).run_sync("go")
        assert (run.output, run.stop, run.model_calls) == (expected, stops.Completed(), 2)
        assert model.last.messages[-1].text == "be polite\nPlease answer again."


def test_it_is_not_inherited() -> None:
    def never(value: str, ctx: Context) -> None:
        if value == "inner":
            raise ModelRetry("no")

    inner = Agent(ScriptedModel("inner"), name="inner")
    agent = Agent(ScriptedModel(tool_call("inner", input="x"), "outer"), tools=[inner], output_validator=never)
    assert agent.run_sync("go").observations == ("inner",)


def test_the_tries_are_limited() -> None:
    def never(value: str, ctx: Context) -> None:
        raise ModelRetry("again")

    run = Agent(ScriptedModel(always="x"), output_validator=never).run_sync("go")
    assert run.model_calls == 3
    assert not run.has_final_answer
    assert "after 3 tries: again" in (run.error or "")


def test_an_answer_that_is_cut_is_not_validated() -> None:
    def never(value: str, ctx: Context) -> None:
        raise AssertionError("called")

    cut = FunctionModel(lambda request: ModelResponse(assistant("cu"), finish="length"))
    run = Agent(cut, output_validator=never).run_sync("go")
    assert (run.text, run.stop) == ("cu", stops.Incomplete("length"))


def test_an_agent_that_it_calls_joins_the_run() -> None:
    judge = Agent(ScriptedModel(always="fine"), name="judge")

    async def ask(value: str, ctx: Context) -> None:
        if (await judge.run(value)).text != "fine":
            raise ModelRetry("no")

    run = Agent(ScriptedModel("x"), output_validator=ask).run_sync("go")
    assert (run.text, run.model_calls) == ("x", 2)


RETURNED: list[tuple[Any, object]] = [
    *((City, returned) for returned in (True, "Ur", {"people": 3}, Ellipsis)),
    *((int, returned) for returned in ("3", 0.5, True)),
    *((None, returned) for returned in (True, 3, ["x"])),
    (list[int], [0, "x"]),
]


@pytest.mark.parametrize(("kind", "returned"), RETURNED, ids=str)
async def test_a_value_of_another_type_is_refused_and_not_recorded(kind: Any, returned: object) -> None:
    values: dict[Any, dict[str, Any]] = {City: {"name": "Ur"}, int: {"value": 3}, list[int]: {"value": [0]}, None: {}}
    call = tool_call("final_answer", **values[kind])
    modes: list[OutputMode] = ["native", "tool", "prompted"]
    for mode in modes:
        model = ScriptedModel(always=call if mode == "tool" and kind else call.arguments, output_modes=[mode])
        store = InMemoryStore()
        agent = Agent(model, output=kind, output_validator=lambda value, ctx: returned, store=store)
        with pytest.raises(ConfigurationError, match="validator"):
            await agent.run("go", run_id="r")
        mended = Agent(model, output=kind, output_validator=lambda value, ctx: None, store=elsewhere(store, "r"))
        run = await mended.resume("r")
        assert (run.stop, run.model_calls) == (stops.Completed(), 1)


async def test_a_value_is_the_same_live_and_from_the_record() -> None:
    class Larger(City):
        mayor: str = "x"

    def returning(value: object) -> Callable[[City, Context], object]:
        return lambda city, ctx: value

    store = InMemoryStore()
    for returned in (Larger("Ur", 1), {"name": "Ur", "people": 1}, City("Ur", 1)):
        model = ScriptedModel(_city("ur", 9))
        agent = Agent(model, output=City, output_validator=returning(returned), store=store)
        run = await agent.run("go")
        assert run.output == (await agent.resume(run.id)).output == (await agent.replay(run.id)).output
        assert run.output == City("Ur", 1)


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="output_validator"):
        Agent(ScriptedModel("x"), output_validator="x")  # type: ignore[call-overload]


# -- tools ask to try again --------------------------------------------------------------------------------------------


def _agent(*fits: bool, retries: int = 2, **options: Any) -> Agent:
    """Return an agent whose tool asks to try again each time that is not in `fits`."""
    calls = iter(fits)

    @tool(retries=retries)
    def search(words: str) -> str:
        if not next(calls):
            raise ModelRetry(f"nothing is found for {words}: use fewer words")
        return "found"

    tools = Toolbox([search], on_error=options.pop("on_error", "return"))
    replies = [tool_call("search", words=str(number)) for number in range(len(fits))]
    return Agent(ScriptedModel(*replies, "done"), tools=tools, **options)


@pytest.mark.parametrize("on_error", ["return", "raise"])
def test_a_tool_asks_the_model_to_try_again(on_error: str) -> None:
    run = _agent(False, True, on_error=on_error).run_sync("go")
    assert run.observations == ("nothing is found for 0: use fewer words", "found")
    assert (run.text, run.failed_tool_calls) == ("done", 1)
    assert run.trace()[0].results[0].error == "retry"


@pytest.mark.parametrize(
    ("fits", "retries", "ends"),
    [
        ((False, False, True), 2, True),
        ((False, False, True, False, False, True), 2, True),
        ((False, False, False), 2, False),
        ((False,), 0, False),
        ((True, False, False), 1, False),
    ],
)
def test_the_tries_of_a_tool_are_counted_until_it_succeeds(fits: tuple[bool, ...], retries: int, ends: bool) -> None:
    run = _agent(*fits, retries=retries).run_sync("go")
    assert run.has_final_answer == ends
    assert_sendable(run.messages)
    if not ends:
        assert isinstance(run.stop, stops.Failed)
        assert run.stop.kind == "ModelRetry"
        assert f"{retries + 1} times in a row" in run.stop.error
        assert len(run.observations) == len(fits)


async def test_the_count_is_the_same_after_a_resume() -> None:
    store = InMemoryStore()
    first = await _agent(False, False, False, store=store).run("go", run_id="r")
    assert isinstance(first.stop, stops.Failed)
    assert isinstance((await _agent(store=elsewhere(store, "r")).resume("r")).stop, stops.Failed)


def test_a_number_of_tries_is_whole_and_not_negative() -> None:
    wrong: list[Any] = [-1, True, 1.5, "x"]
    for retries in wrong:
        with pytest.raises(ConfigurationError, match="retries"):
            _agent(True, retries=retries)


def test_a_hand_written_tool_may_ask_too() -> None:
    def look(arguments: dict[str, Any]) -> str:
        raise ModelRetry("no")

    made = raw_tool(look, name="look", description="", parameters={"type": "object"})
    assert Agent(ScriptedModel(tool_call("look"), "done"), tools=[made]).run_sync("go").observations == ("no",)
