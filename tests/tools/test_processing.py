"""Results that are changed before a model gets them."""

from typing import Any

from ziggurat import Agent, AgentRun, Context, Image, ToolResult, stack, tool
from ziggurat.agents import Environment
from ziggurat.layers import CacheStore, cache
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import process_result

HITS = {"total": 2, "hits": [{"title": "a", "n": 1}, {"title": "b"}, {"n": None}], "a.b": 1}


async def run_of(tool_given: Any, *names: str, **arguments: Any) -> AgentRun:
    calls = [tool_call(name, id=f"call-{number}") for number, name in enumerate(names or ("search",))]
    return await Agent(ScriptedModel(calls, "so"), tools=[tool_given], **arguments).run("go")


@tool
def search() -> Any:
    """Search."""
    return HITS


async def test_a_function_sync_or_async_changes_a_result_and_its_source_stays() -> None:
    async def ask(result: ToolResult, ctx: Context) -> str:
        inner = Agent(ScriptedModel(f"in short: {result.text[:8]}"), name="reader")
        return (await inner.run("shorten it")).text

    sources = tool(name="search", description="Search.")(lambda: ToolResult("", "", "LOUD", None, "web"))
    lower = process_result(by=lambda result, ctx: result.text.lower())
    run = await run_of(stack(sources, process_result(by=ask), lower))
    (result,) = run.messages[2].tool_results
    assert (result.text, result.origin, result.id) == ("in short: loud", "web", "call-0")


async def test_errors_and_short_results_and_other_parts_pass_unchanged() -> None:
    @tool
    def broken() -> str:
        """Break."""
        raise ValueError("ill")

    seen: list[str] = []

    def note(result: ToolResult, ctx: Context) -> ToolResult:
        seen.append(result.text)
        return result

    assert (await run_of(stack(broken, process_result(by=note)), "broken")).failed_tool_calls == 1
    await run_of(stack(search, process_result(by=note, above=1_000)))
    assert seen == []
    picture = tool(name="search", description="Search.")(lambda: Image(data=b"x", media_type="image/png"))
    run = await run_of(stack(picture, process_result(by=note)))
    assert isinstance(run.messages[2].tool_results[0].content[0], Image)


async def test_a_processor_that_fails_fails_the_call() -> None:
    run = await run_of(stack(search, process_result(by=lambda result, ctx: result.text[10**9])))
    assert run.messages[2].tool_results[0].error == "permanent"
    assert "IndexError" in run.observations[0]


async def test_the_changed_result_is_on_record() -> None:
    store, counted = InMemoryStore(), []

    def count(result: ToolResult, ctx: Context) -> int:
        counted.append(result.text)
        return len(counted)

    def agent(*replies: Any) -> Agent:
        return Agent(ScriptedModel(*replies), tools=[stack(search, process_result(by=count))], store=store)

    await agent(tool_call("search"), ConnectionError("down")).run("go", run_id="r")
    run = await agent("so").resume("r")
    assert (run.observations, len(counted)) == (("1",), 1)
    assert (await agent("so").replay("r")).messages == run.messages


async def test_a_cache_around_or_inside_reuses_one_or_the_other() -> None:
    clock = HandClock()
    calls = {"tool": 0, "by": 0}

    @tool(name="search")
    def numbered() -> dict[str, int]:
        """Search."""
        calls["tool"] += 1
        return {"n": calls["tool"]}

    def count(result: ToolResult, ctx: Context) -> str:
        calls["by"] += 1
        return f"{result.text} {calls['by']}"

    around = stack(numbered, cache(store=CacheStore(), seconds=60), process_result(by=count))
    inside = stack(numbered, process_result(by=count), cache(store=CacheStore(), seconds=60))
    expected = {0: (['{"n":1} 1'] * 2, ['{"n":2} 2', '{"n":2} 3']), 61: (['{"n":3} 4'] * 2, ['{"n":4} 5', '{"n":4} 6'])}
    for seconds, texts in expected.items():
        await clock.advance(seconds) if seconds else None
        for given_tool, wanted in zip((around, inside), texts, strict=True):
            observed = [(await run_of_at(given_tool, clock)).observations[0] for _ in range(2)]
            assert observed == wanted


async def run_of_at(given_tool: Any, clock: HandClock) -> AgentRun:
    agent = Agent(ScriptedModel(tool_call("search"), "so"), tools=[given_tool])
    return await agent.run("go", environment=Environment(clock=clock))
