"""`act`: the order of its stages, when each entry is recorded, and what layers and hooks may do to a call."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
from msgspec.structs import replace

from tests.calls.given import given
from tests.samples import pairs
from ziggurat import (
    Agent,
    Approvals,
    Approve,
    Context,
    Event,
    Middleware,
    Service,
    Toolbox,
    ToolCall,
    ToolResult,
    layer,
    stack,
    tool,
)
from ziggurat.agents import PendingItem
from ziggurat.calls.tool_call import act
from ziggurat.core.context import JOURNAL, RUN_ID, Scope
from ziggurat.errors import (
    ConfigurationError,
    JournalCorrupt,
    JournalError,
    JournalMismatch,
    NotRepeatable,
    Suspend,
    ToolError,
)
from ziggurat.events import Diverged, ToolEnded, ToolStarted
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Intent, JournalEntry, Pending, Result
from ziggurat.layers import retry
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel, run_until_idle
from ziggurat.tools.approval import APPROVALS
from ziggurat.tools.permissions import GRANTS


def _ctx(journal: LocalJournal | None = None, *middleware: Middleware) -> Context:
    ctx = Context("run/tool", scope=Scope({JOURNAL: journal or LocalJournal(), RUN_ID: "r"}))
    return given(ctx, *middleware) if middleware else ctx


def _reopened(journal: LocalJournal) -> LocalJournal:
    """Return the journal as another process reads it."""
    fresh = LocalJournal.load(journal.dump())
    fresh.reopen("r", 0.0)
    return fresh


class Durable(LocalJournal):
    """A journal whose writes must be awaited; it notes the order of writing and acting."""

    durable = True

    def __init__(self) -> None:
        super().__init__()
        self.log: list[str] = []

    def append(self, entry: JournalEntry, /, *, hold: bool = False) -> Awaitable[None] | None:
        super().append(entry, hold=hold)

        async def written() -> None:
            await asyncio.sleep(0)
            self.log.append(f"written {entry.kind}")

        self.log.append(f"append {entry.kind}")
        return written()


class Log(Middleware):
    """Notes each hook."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.own = name
        self.log = log

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        self.log.append(f"{self.own} before")

    async def after_tool(self, result: ToolResult, ctx: Context) -> None:
        self.log.append(f"{self.own} after")

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        self.log.append(f"{self.own} in")
        result = await tool(call, ctx)
        self.log.append(f"{self.own} out")
        return result

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.log.append(f"{self.own} error {type(error).__name__}")


async def test_the_stations_stand_in_order() -> None:
    journal = Durable()
    log = journal.log

    @tool(effect="once")
    async def pay(amount: int) -> str:
        log.append("run")
        return "paid"

    ctx = _ctx(journal, Log("a", log), Log("b", log))
    result = await act(Toolbox([pay]), tool_call("pay", amount=1), ctx)
    assert result.text == "paid"
    assert log == [
        "a before", "b before", "append Intent", "written Intent", "a in", "b in", "run",
        "append Returned", "written Returned", "b out", "a out", "b after", "a after",
        "append Result", "written Result",
    ]  # fmt: skip


async def test_a_call_that_does_not_fit_is_answered_and_never_begun() -> None:
    journal, log = LocalJournal(), []

    @tool
    async def pay(amount: int) -> str:
        log.append("run")
        return "paid"

    for arguments in ('{"amount": "many"}', "{}", "nonsense", '{"amount": 1, "extra": 2}', "[]", "\ud800"):
        call = ToolCall("1", "pay", arguments)
        result = await act(Toolbox([pay]), call, replace(_ctx(journal), path=f"run/{len(journal.entries)}"))
        assert result.error == "invalid_arguments", arguments
    assert log == []
    assert not any(isinstance(entry, Intent) for entry in journal.entries)


# -- look-up ---------------------------------------------------------------------------------------------------------


async def test_what_is_on_record_is_the_answer_and_nothing_runs() -> None:
    log: list[str] = []
    heard: list[Event] = []

    @tool
    async def look() -> str:
        log.append("run")
        return "seen"

    journal, box = LocalJournal(), Toolbox([look])
    first = await act(box, ToolCall("1", "look"), _ctx(journal))
    again = _reopened(journal)
    hooks = Log("a", log)
    second = await act(box, ToolCall("other id", "look"), _ctx(again, hooks).heard_by(heard.append))
    assert replace(second, id="1") == first
    assert second.id == "other id", "the answer bears the id that the model gave this time"
    assert log == ["run"]
    (ended,) = heard
    assert isinstance(ended, ToolEnded)
    assert ended.replayed


@pytest.mark.parametrize("hook", ["after_tool", "wrap_tool", None])
async def test_a_result_bears_id_and_name_of_its_call_whatever_it_was_made_with(hook: str | None) -> None:
    class Renaming(Middleware):
        async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
            return replace(result, id="x", name="x") if hook == "after_tool" else result

        async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
            result = await tool(call, ctx)
            return replace(result, id="x", name="x") if hook == "wrap_tool" else result

    @tool
    async def look() -> ToolResult:
        return ToolResult("x", "x", "seen")

    result = await act(Toolbox([look]), ToolCall("1", "look"), _ctx(LocalJournal(), Renaming()))
    assert (result.id, result.name, result.content) == ("1", "look", "seen")


async def test_another_call_at_the_same_place_is_told_of_or_refused() -> None:
    @tool
    async def look(what: str = "") -> str:
        return what

    journal, box = LocalJournal(), Toolbox([look])
    await act(box, tool_call("look", what="this"), _ctx(journal))
    heard: list[Event] = []
    other = tool_call("look", what="that")
    result = await act(box, other, _ctx(_reopened(journal)).heard_by(heard.append))
    assert result.text == "this", "the record wins"
    assert [type(event) for event in heard] == [Diverged, ToolEnded]
    same = ToolCall("1", "look", '{ "what" : "this" }')
    heard.clear()
    await act(box, same, _ctx(_reopened(journal)).heard_by(heard.append))
    assert [type(event) for event in heard] == [ToolEnded], "blanks and the order of keys make no difference"
    strict = LocalJournal.load(journal.dump(), "replay")
    with pytest.raises(JournalMismatch, match="first divergence at run/tool"):
        await act(box, other, _ctx(strict))
    with pytest.raises(JournalMismatch, match="which is not in the record"):
        await act(box, other, _ctx(LocalJournal("replay")))


# -- crashes ---------------------------------------------------------------------------------------------------------


async def _crash_in(tool_: Any, journal: LocalJournal, *middleware: Middleware) -> None:
    """Begin a call and cancel it when it hangs."""
    task = asyncio.ensure_future(act(Toolbox([tool_]), ToolCall("1", tool_.spec.name), _ctx(journal, *middleware)))
    await run_until_idle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_what_may_be_repeated_is_repeated_under_the_same_key() -> None:
    keys: list[str] = []

    @tool
    async def upload(ctx: Context) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) == 1:
            await asyncio.Event().wait()
        return "up"

    journal = Durable()
    await _crash_in(upload, journal)
    assert (await act(Toolbox([upload]), ToolCall("1", "upload"), _ctx(_reopened(journal)))).text == "up"
    assert keys == ["r:run/tool", "r:run/tool"]


class Slow(Middleware):
    """Waits in a given hook."""

    def __init__(self, where: str) -> None:
        self.where = where

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        if self.where == "after":
            await asyncio.Event().wait()
        return replace(result, content=result.text.upper())

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        result = await tool(call, ctx)
        if self.where == "wrap":
            await asyncio.Event().wait()
        return result


@pytest.mark.parametrize("where", ["after", "wrap"])
async def test_no_hook_stands_between_an_effect_and_its_record(where: str) -> None:
    """If the run is cancelled while a hook waits, the payment is known to be done and is not repeated."""
    runs: list[int] = []

    @tool(effect="once")
    async def pay() -> str:
        runs.append(1)
        return "paid"

    journal = LocalJournal()
    await _crash_in(pay, journal, Slow(where))
    result = await act(Toolbox([pay]), ToolCall("1", "pay"), _ctx(_reopened(journal), Slow("nowhere")))
    assert (result.text, result.error) == ("PAID", None)
    assert runs == [1]


# -- permissions and approval ----------------------------------------------------------------------------------------


async def test_permission_is_asked_before_a_person_is() -> None:
    @tool(permissions=["network"], approval=True)
    async def post() -> str:
        return "posted"

    journal, box = LocalJournal(), Toolbox([post])
    result = await act(box, ToolCall("1", "post"), _ctx(journal))
    assert result.error == "denied"
    assert not any(isinstance(entry, Pending) for entry in journal.entries)
    allowed = _ctx().within(GRANTS, frozenset({"network"}))
    with pytest.raises(Suspend):
        await act(box, ToolCall("1", "post"), allowed)


async def test_what_waits_and_what_is_decided_is_written_before_it_is_acted_upon() -> None:
    journal = Durable()
    log = journal.log

    @tool(approval=True)
    async def post() -> str:
        log.append("run")
        return "posted"

    def agree(item: PendingItem) -> Approve:
        log.append("asked")
        return Approve()

    ctx = _ctx(journal).within(APPROVALS, (Approvals("post", approver=agree),))
    await act(Toolbox([post]), ToolCall("1", "post"), ctx)
    assert log == [
        "append Pending", "written Pending", "asked", "append Decided", "written Decided",
        "append Intent", "written Intent", "run", "append Result", "written Result",
    ]  # fmt: skip


async def test_a_call_that_waits_is_recorded_once_however_often_it_is_met() -> None:
    @tool(approval=True)
    async def post() -> str:
        return "posted"

    journal, box = LocalJournal(), Toolbox([post])
    for _ in range(3):
        with pytest.raises(Suspend):
            await act(box, ToolCall("1", "post"), _ctx(journal))
    assert [type(entry) for entry in journal.entries] == [Pending]


@pytest.mark.parametrize("error", [JournalCorrupt("entry 7 cannot be read"), JournalMismatch("first divergence")])
@pytest.mark.parametrize("layered", [False, True])
async def test_a_fault_of_the_record_is_no_failure_of_the_tool(error: JournalError, layered: bool) -> None:
    """The error is in a nested agent's record, and must not reach the model as a tool error."""

    @tool
    async def nested() -> str:
        """Ask an agent whose record is broken."""
        raise error

    box = Toolbox([stack(nested, retry(attempts=2)) if layered else nested])
    with pytest.raises(type(error)):
        await act(box, ToolCall("1", "nested"), _ctx())


# -- events ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", [False, True])
async def test_beginning_and_end_are_told(fails: bool) -> None:
    @tool
    async def look() -> str:
        if fails:
            raise ToolError("cannot see", kind="transient")
        return "seen"

    heard: list[Event] = []
    result = await act(Toolbox([look]), ToolCall("1", "look"), _ctx().heard_by(heard.append))
    started, ended = heard
    assert started == ToolStarted("run/tool", ToolCall("1", "look"))
    assert isinstance(ended, ToolEnded)
    assert ended.result == result
    assert result.error == ("transient" if fails else None)
    assert not ended.replayed


# -- layers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("guarded", [False, True])
async def test_a_layer_cannot_change_what_is_run(guarded: bool) -> None:
    @layer
    async def sly(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        return await tool(replace(call, arguments='{"amount": 100}'), ctx.under("elsewhere"))

    runs: list[int] = []

    @tool
    async def pay(amount: int) -> str:
        runs.append(amount)
        return "paid"

    ctx = _ctx(None, *([Middleware()] if guarded else []))
    result = await act(Toolbox([stack(pay, sly())]), tool_call("pay", amount=1), ctx)
    assert result.error == "permanent"
    assert "approved" in result.text
    assert runs == []


async def test_every_try_gets_arguments_of_its_own() -> None:
    seen: list[list[int]] = []

    @tool
    async def drain(numbers: list[int]) -> str:
        seen.append(list(numbers))
        numbers.clear()
        if len(seen) < 3:
            raise ConnectionError
        return "done"

    box = Toolbox([stack(drain, retry(attempts=3, base=0))])
    assert (await act(box, tool_call("drain", numbers=[1, 2]), _ctx())).text == "done"
    assert seen == [[1, 2]] * 3


@pytest.mark.parametrize(
    ("kind", "around", "seconds"), pairs(["async", "sync", "service"], ["layer", "wrap_tool"], [None, 5.0])
)
async def test_two_calls_at_once_run_a_tool_that_acts_once(around: str, kind: str, seconds: float | None) -> None:
    runs: list[int] = []

    @tool(effect="once", timeout=seconds)
    async def pay() -> str:
        await asyncio.sleep(0)
        runs.append(1)
        return "paid"

    @tool(name="pay", effect="once", timeout=seconds)
    def pay_in_thread() -> str:
        runs.append(1)
        return "paid"

    async def twice(call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult]) -> ToolResult:
        both: list[Any] = await asyncio.gather(inner(call, ctx), inner(call, ctx), return_exceptions=True)
        first, second = both
        assert isinstance(first, ToolResult)
        assert isinstance(second, NotRepeatable)
        return first

    class Twice(Middleware):
        async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
            return await twice(call, ctx, tool) if around == "wrap_tool" else await tool(call, ctx)

    @layer
    async def doubled(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        return await twice(call, ctx, tool)

    service: Any = pay_in_thread if kind == "sync" else stack(pay, retry(attempts=1)) if kind == "service" else pay
    box = Toolbox([stack(service, doubled()) if around == "layer" else service])
    assert (await act(box, tool_call("pay"), _ctx(None, Twice()))).text == "paid"
    assert runs == [1]


async def test_what_does_not_fit_meets_no_layer() -> None:
    met: list[ToolCall] = []

    @layer
    async def counting(call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        met.append(call)
        return await tool(call, ctx)

    @tool
    async def square(number: int) -> int:
        return number * number

    box = Toolbox([stack(square, counting())])
    assert (await act(box, tool_call("square", number="many"), _ctx())).error == "invalid_arguments"
    assert met == []
    assert (await act(box, tool_call("square", number=3), _ctx())).text == "9"
    assert len(met) == 1


# -- hooks -----------------------------------------------------------------------------------------------------------


async def _raises(self: Middleware, value: Any, ctx: Context) -> Any:
    raise ValueError("not today")


async def _answers(self: Middleware, call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
    return ToolResult(call.id, call.name, "from a cache")


def _changes(**changes: Any) -> Any:
    async def hook(self: Middleware, value: Any, ctx: Context) -> Any:
        return replace(value, **changes)

    return hook


MISBEHAVING: dict[str, tuple[str, Any, str | None, str, int]] = {
    "raises before": ("before_tool", _raises, "permanent", "not today", 0),
    "renames": ("before_tool", _changes(name="other"), "permanent", "other", 0),
    "breaks arguments": ("before_tool", _changes(arguments='{"amount": "many"}'), "invalid_arguments", "amount", 0),
    "raises after": ("after_tool", _raises, "permanent", "not today", 1),
    "changes the id before": ("before_tool", _changes(id="mine"), None, "paid", 1),
    "changes the id after": ("after_tool", _changes(id="mine"), None, "paid", 1),
    "answers itself": ("wrap_tool", _answers, None, "from a cache", 0),
}
"""The hook, its code, the kind of error of the result, a part of its text, and how often the tool runs."""


@pytest.mark.parametrize("case", MISBEHAVING)
async def test_hooks_that_misbehave_make_a_result(case: str) -> None:
    hook, code, error, text, runs = MISBEHAVING[case]
    ran: list[int] = []
    errors: list[BaseException] = []

    @tool
    async def pay(amount: int) -> str:
        ran.append(amount)
        return "paid"

    async def told(self: Middleware, error: BaseException, ctx: Context) -> None:
        errors.append(error)

    wrong, notes = (type("Hooks", (Middleware,), hooks)() for hooks in ({hook: code}, {"on_error": told}))
    result = await act(Toolbox([pay]), tool_call("pay", id="1", amount=1), _ctx(None, wrong, notes))
    assert (result.id, result.error) == ("1", error)
    assert text in result.text
    assert len(ran) == runs
    assert len(errors) == (0 if error is None else 1), "each error is told of once"


async def test_a_hook_may_rewrite_the_arguments_and_that_is_what_runs() -> None:
    class Cap(Middleware):
        async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
            return replace(call, arguments='{"amount": 10}')

    @tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    journal = LocalJournal()
    assert (await act(Toolbox([pay]), tool_call("pay", amount=99), _ctx(journal, Cap()))).text == "paid 10"
    (intent,) = [entry for entry in journal.entries if isinstance(entry, Intent)]
    assert isinstance(intent.request, ToolCall)
    assert intent.request.arguments == '{"amount":10}'
    (result,) = [entry for entry in journal.entries if isinstance(entry, Result)]
    assert isinstance(result.request, ToolCall)
    assert result.request.arguments == '{"amount":99}', "looked up by what the model asked"


async def test_a_hook_that_fails_after_a_tool_does_not_hide_that_it_was_executed() -> None:
    paid: list[int] = []

    @tool(effect="once")
    def charge(amount: int) -> str:
        paid.append(amount)
        return "receipt 17"

    class Metrics(Middleware):
        async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
            raise ConnectionError("no server")

    model = ScriptedModel(tool_call("charge", amount=5), "done")
    run = await Agent(model, tools=[charge], middleware=[Metrics(), Metrics()]).run("go")
    assert paid == [5]
    assert run.observations == ("ConnectionError: no server (charge was executed; only its result is lost)",)


@layer
async def _wrong_layer(request: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult]) -> Any:
    await inner(request, ctx)
    return 3


class _WrongHook(Middleware):
    async def wrap_tool(self, call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult]) -> Any:
        return (await inner(call, ctx)).text


@pytest.mark.parametrize("effect", ["none", "repeatable", "once"])
@pytest.mark.parametrize("wrong", ["layer", "hook"])
async def test_a_wrap_that_returns_no_result_is_a_mistake(wrong: str, effect: Any) -> None:
    @tool(effect=effect)
    def act_on(page: int) -> str:
        """Act."""
        return f"page {page}"

    tools = [stack(act_on, _wrong_layer()) if wrong == "layer" else act_on]
    middleware = [_WrongHook()] if wrong == "hook" else []
    agent = Agent(ScriptedModel(tool_call("act_on", page=1), "Done."), tools=tools, middleware=middleware)
    with pytest.raises(ConfigurationError, match="act_on"):
        await agent.run("Go")
