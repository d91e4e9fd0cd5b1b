"""Toolbox: its tools, similar names for unknown ones, and how a batch of calls runs."""

import asyncio
from typing import Any

import pytest

from ziggurat import ConfigurationError, Context, Toolbox, ToolCall, ToolError, ToolResult, stack, tool
from ziggurat.calls.tool_call import act, call_tools, not_executed
from ziggurat.core import CLOCK
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.core.service import COMPOSITE
from ziggurat.errors import InvalidArguments
from ziggurat.journal import LocalJournal
from ziggurat.layers.retry import retry
from ziggurat.messages import ToolSpec, tool_call
from ziggurat.messages.model import SPEC
from ziggurat.testing import HandClock, assert_no_leaks
from ziggurat.tools.entry import ToolStatistics
from ziggurat.tools.guarded_call import GRACE


def _ctx(journal: LocalJournal | None = None) -> Context:
    return Context("run", scope=Scope({JOURNAL: journal or LocalJournal()}))


async def search(query: str) -> str:
    """Search."""
    return query


async def fetch(url: str) -> str:
    """Fetch."""
    return url


async def _batch(box: Toolbox, *calls: ToolCall) -> tuple[ToolResult, ...]:
    async with assert_no_leaks():
        return await call_tools(box, calls, _ctx(), "step-1")


async def test_functions_tools_layered_tools_and_services_go_in() -> None:
    class Service:
        """A service that states a `SPEC`."""

        def __init__(self) -> None:
            self.facts = {SPEC: ToolSpec("own"), COMPOSITE: True}

        async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
            return ToolResult(call.id, call.name, "own")

    box = Toolbox([search, tool(name="get")(fetch), stack(tool(name="again")(fetch), retry(attempts=2)), Service()])
    assert list(box) == ["search", "get", "again", "own"]
    assert len(box) == 4
    assert "get" in box
    assert [spec.name for spec in box.specs] == ["search", "get", "again", "own"]
    assert repr(box) == "Toolbox(search, get, again, own)"
    assert box.entries["own"].composite
    assert "nothing" not in box
    assert (await act(box, ToolCall("1", "own"), _ctx())).text == "own"


@pytest.mark.parametrize("wrong", [3, "search", None, int, ["x"]])
def test_what_is_no_tool_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"a tool is a typed function|is a list of functions, tools and agents; got .* among them",
    ):
        Toolbox([wrong])


def test_two_of_one_name_and_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"two tools are named 'search'"):
        Toolbox([search, tool(name="search")(fetch)])
    for tools in (None, 3, "search"):
        with pytest.raises(ConfigurationError, match="tools"):
            Toolbox(tools)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="concurrency"):
        Toolbox([search], concurrency=0)


def test_an_unknown_tool_is_answered_with_those_that_are_near() -> None:
    box = Toolbox([search, fetch])
    for name, told in (
        ("serch", "did you mean search"),
        ("x" * 5_000, "unknown tool 'xxx"),
        ("FETCH", "did you mean fetch"),
        ("zzz", "there are: search, fetch"),
        ("", "there are"),
    ):
        result = asyncio.run(act(box, ToolCall("1", name), _ctx()))
        assert result.error == "not_found"
        assert told in result.text
        assert len(result.text) < 200
        assert (result.id, result.name) == ("1", name)
    assert "there are no tools" in asyncio.run(act(Toolbox(), ToolCall("1", "x"), _ctx())).text


async def test_parts_of_it_share_its_figures_and_settings() -> None:
    box = Toolbox([search, fetch], concurrency=2, join="fail_fast", on_error="raise")
    only, without = box.only("fetch"), box.without("fetch")
    assert (list(only), list(without)) == (["fetch"], ["search"])
    assert [spec.name for spec in only.specs] == ["fetch"]
    assert (only.concurrency, only.join, only.on_error) == (2, "fail_fast", "raise")
    await act(only, tool_call("fetch", url="x"), _ctx())
    assert box.statistics["fetch"].calls == 1
    for wrong in (box.only, box.without):
        with pytest.raises(ConfigurationError, match="did you mean fetch"):
            wrong("fetsh")


def test_figures_count_calls_and_failures() -> None:
    @tool
    async def half(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n

    box = Toolbox([half])
    asyncio.run(_batch(box, *(tool_call("half", id=str(n), n=n) for n in range(4))))
    asyncio.run(_batch(box, ToolCall("x", "half", "nonsense"), ToolCall("y", "nobody")))
    figures = box.statistics["half"]
    assert (figures.calls, figures.errors) == (5, 3)
    assert figures.mean_seconds >= 0
    assert ToolStatistics().mean_seconds == 0


@tool
async def work(n: int, fail: bool = False, turns: int = 0) -> int:
    for _ in range(turns):
        await asyncio.sleep(0)
    if fail:
        raise ValueError(f"number {n} failed")
    return n


async def test_one_of_fifty_fails_and_all_others_are_kept_in_order() -> None:
    calls = [tool_call("work", id="call", n=n, fail=n == 23, turns=(50 - n) % 7) for n in range(50)]
    results = await _batch(Toolbox([work]), *calls)
    assert [result.text for result in results if result.error is None] == [str(n) for n in range(50) if n != 23]
    assert results[23].error == "permanent"
    assert "number 23 failed" in results[23].text
    assert {result.id for result in results} == {"call"}, "ids that repeat do not mix results"


@pytest.mark.parametrize("concurrency", [1, 3, 50, None])
async def test_no_more_than_concurrency_run_at_once(concurrency: int | None) -> None:
    running, most = 0, 0

    @tool
    async def busy(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        running -= 1
        return n

    calls = [tool_call("busy", n=n) for n in range(20)]
    results = await _batch(Toolbox([busy], concurrency=concurrency), *calls)
    assert [result.text for result in results] == [str(n) for n in range(20)]
    assert most == min(concurrency or 20, 20)


async def test_fail_fast_cancels_the_others_and_answers_for_them() -> None:
    cleaned: list[int] = []

    @tool
    async def slow(n: int) -> int:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(n)
        return n

    box = Toolbox([work, slow], join="fail_fast")
    calls = (
        tool_call("work", id="a", n=1),
        tool_call("slow", id="b", n=2),
        tool_call("work", id="c", n=3, fail=True, turns=3),
    )
    results = await _batch(box, *calls)
    assert [result.id for result in results] == ["a", "b", "c"]
    assert [result.error for result in results] == [None, "interrupted", "permanent"]
    assert results[1].text == (
        "interrupted: another call of the batch failed while this one ran; whether it took effect is unknown"
    )
    assert cleaned == [2]


async def test_fail_fast_does_not_wait_for_ever_for_one_that_will_not_stop() -> None:
    clock, released = HandClock(auto=True), asyncio.Event()

    @tool
    async def stubborn() -> str:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    calls = (ToolCall("a", "stubborn"), tool_call("work", id="b", n=1, fail=True))
    ctx = _ctx().within(CLOCK, clock)
    results = await call_tools(Toolbox([stubborn, work], join="fail_fast"), calls, ctx, "step-1")
    assert [result.error for result in results] == ["interrupted", "permanent"]
    assert clock.monotonic() == GRACE
    released.set()
    await asyncio.sleep(0)


def test_what_fail_fast_cancelled_stays_cancelled_on_replay() -> None:
    begun: list[str] = []

    @tool(effect="once", interrupted="report")
    async def pay() -> str:
        begun.append("pay")
        await asyncio.Event().wait()
        return "paid"

    @tool
    async def slow() -> str:
        begun.append("slow")
        await asyncio.Event().wait()
        return "never"

    calls = (ToolCall("a", "slow"), ToolCall("b", "pay"), tool_call("work", id="c", n=1, fail=True, turns=3))
    box = Toolbox([slow, pay, work], join="fail_fast")
    journal = LocalJournal()
    first = asyncio.run(call_tools(box, calls, _ctx(journal), "step-1"))
    assert first[0].text == (
        "interrupted: another call of the batch failed while this one ran; whether it took effect is unknown"
    )
    assert "whether it took effect is unknown" in first[1].text
    replay = LocalJournal.load(journal.dump(), "replay")
    assert asyncio.run(call_tools(box, calls, _ctx(replay), "step-1")) == first
    assert begun == ["slow", "pay"]


def test_on_error_raise_ends_the_run_with_what_failed() -> None:
    one = (tool_call("work", n=1), tool_call("work", n=2, fail=True))
    with pytest.raises(ToolError, match="number 2"):
        asyncio.run(_batch(Toolbox([work], on_error="raise"), *one))
    two = (*one, tool_call("work", n=3, fail=True))
    with pytest.raises(ToolError, match="number 2"):
        asyncio.run(_batch(Toolbox([work], on_error="raise"), *two))
    with pytest.raises(ToolError, match="number 2 failed"):
        asyncio.run(_batch(Toolbox([work], on_error="raise", join="fail_fast"), *two))


async def test_a_batch_that_is_cancelled_leaves_nothing_behind() -> None:
    async with assert_no_leaks():
        calls = tuple(tool_call("work", n=n, turns=1000) for n in range(5))
        task = asyncio.ensure_future(call_tools(Toolbox([work]), calls, _ctx(), "step-1"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


def test_calls_that_are_not_executed_are_answered() -> None:
    (result,) = not_executed((tool_call("work", id="a", n=1),), "the run ended before")
    assert (result.id, result.name, result.error) == ("a", "work", "interrupted")
    assert result.text == "not executed: the run ended before"


@pytest.mark.parametrize("given", [{"join": "failfast"}, {"on_error": "rasie"}, {"concurrency": "3"}])
def test_settings_that_are_none_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=repr(next(iter(given.values())))):
        Toolbox([], **given)


async def test_a_tool_is_called_by_its_name_and_counted() -> None:
    def double(number: int) -> int:
        """Double."""
        if number == 3:
            raise ToolError("not three")
        return 2 * number

    async def later(text: str) -> str:
        """Wait."""
        return text

    box = Toolbox([double, later])
    assert (await box.call("double", {"number": 2})).text == "4"
    assert (await box.call("later", '{"text": "x"}')).text == "x"
    with pytest.raises(ToolError, match="did you mean double"):
        await box.call("doubel", {"number": 2})
    with pytest.raises(InvalidArguments, match="number"):
        await box.call("double", {"number": "two"})
    with pytest.raises(ToolError, match="not three"):
        await box.call("double", {"number": 3})
    assert {name: (each.calls, each.errors) for name, each in box.statistics.items()} == {
        "double": (3, 2),
        "later": (1, 0),
    }
