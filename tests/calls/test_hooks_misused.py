"""Whatever a hook returns is used, or named at once: no model gets it, and no conversation that cannot be sent."""

import asyncio
from collections.abc import Callable, Iterable
from inspect import iscoroutinefunction
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.samples import pairs, rows, sample
from tests.wrong import wrong
from ziggurat import Agent, AgentRequest, AgentRun, ConfigurationError, Message, Middleware, Runnable, open_stream
from ziggurat.journal.entries import Intent, JournalEntry, Opened, Result
from ziggurat.journal.store import run_log
from ziggurat.layers import CacheStore, cache
from ziggurat.messages import Rewrite, ToolCall, ToolResult, Transcript, tool_call, tool_message, user
from ziggurat.messages.middleware import HOOKS
from ziggurat.middleware import everywhere
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel
from ziggurat.tools import echo, tool

CALLED = [hook for hook in HOOKS if hook not in ("on_error", "on_record")]
NONSENSE = ["text", 3, True, {"a": 1}, Ellipsis, ToolCall, user("x")]


def _agent(hook: str, value: object, depth: int, store: InMemoryStore) -> Agent:
    @tool
    async def pieces() -> Any:
        yield "a"
        yield "b"

    def returns(self: Middleware, *arguments: object) -> object:
        return value

    async def later(self: Middleware, *arguments: object) -> object:
        return value

    middleware = type("Odd", (Middleware,), {hook: returns if hook == "deltas" else later})()
    agent = Agent(ScriptedModel(tool_call("pieces"), "end"), tools=[pieces], middleware=[middleware], store=store)
    for number in range(depth):
        name = agent.name
        agent = Agent(ScriptedModel(tool_call(name, input="go"), "end"), tools=[agent], name=f"outer-{number}")
    return agent


@pytest.mark.parametrize(("hook", "value", "depth"), rows(CALLED, NONSENSE, (0, 2)), ids=repr)
async def test_a_hook_that_returns_nonsense_is_named(hook: str, value: object, depth: int) -> None:
    if isinstance(value, HOOKS[hook]):
        return
    store = InMemoryStore()
    with pytest.raises(ConfigurationError, match=f"{hook} of Odd"):
        await _agent(hook, value, depth, store).run("go", run_id="r", listeners=[lambda event: None])
    if not depth:
        info = await store.find(run_log("r"))
        assert info is None or info.status == "running"  # a mistake is no end: mended, the run goes on
    with pytest.raises(ConfigurationError):
        async with _agent(hook, value, depth, InMemoryStore()).stream("go") as events:
            async for _ in events:
                pass


@pytest.mark.parametrize("hook", [hook for hook in CALLED if hook not in ("on_tool_delta", "deltas")])
async def test_a_hook_that_is_not_async_is_named(hook: str) -> None:
    def returns(self: Middleware, *arguments: object) -> None: ...

    middleware = type("Odd", (Middleware,), {hook: returns})()
    agent = Agent(ScriptedModel(tool_call("echo", text="a"), "end"), tools=[echo], middleware=[middleware])
    with pytest.raises(ConfigurationError, match=f"{hook} of Odd is not async"):
        await agent.run("go", listeners=[lambda event: None])


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_cannot_be_called_is_named_with_its_parameters(hook: str) -> None:
    for wrong_one in (lambda self: None, lambda self, *, ctx: None, lambda self, a, b, c, d: None):
        with pytest.raises(ConfigurationError, match=rf"{hook} of Odd takes \(self"):
            type("Odd", (Middleware,), {hook: wrong_one})


def test_a_method_that_is_misspelt_is_no_hook_in_silence() -> None:
    async def method(self: Middleware, *arguments: object) -> None: ...

    def other(self: Middleware, *arguments: object) -> None: ...

    for hook in [name for name, own in vars(Middleware).items() if iscoroutinefunction(own)]:
        for misspelt in (hook + "s", hook[:-1], hook[:-2] + hook[-1] + hook[-2]):
            with pytest.raises(ConfigurationError, match=rf"{misspelt}\b.*'{hook}'"):
                type("Odd", (Middleware,), {misspelt: method})
            type("Even", (Middleware,), {misspelt: other})  # a method of its own
    for own in ("on_delta", "after_turn", "before_llm", "names"):
        type("Even", (Middleware,), {own: method})


@pytest.mark.parametrize("hook", ["deltas", "on_record"])
def test_a_hook_that_is_not_awaited_is_not_async(hook: str) -> None:
    async def method(self: Middleware, *arguments: object) -> None: ...

    with pytest.raises(ConfigurationError, match=f"{hook} of Odd is not awaited"):
        type("Odd", (Middleware,), {hook: method})


@pytest.mark.parametrize(
    ("value", "at", "store"),
    rows(
        [*NONSENSE, None, Intent("", "x", None, "", ""), Result("elsewhere", "x", None, 1)],
        [Opened, Result],
        [None, "memory:"],
    ),
    ids=repr,
)
async def test_a_hook_with_a_wrong_entry_is_named(value: Any, at: type[JournalEntry], store: str | None) -> None:
    class Odd(Middleware):
        def on_record(self, entry: JournalEntry) -> JournalEntry:
            return wrong(value) if isinstance(entry, at) else entry

    agent = Agent(ScriptedModel("done"), middleware=[Odd()], store=store)
    with pytest.raises(ConfigurationError, match=rf"on_record of Odd got a {at.__name__}"):
        await agent.run("go")


@pytest.mark.parametrize("store", [None, "memory:"])
async def test_a_hook_may_make_a_new_result(store: str | None) -> None:
    class Anew(Middleware):
        def on_record(self, entry: JournalEntry) -> JournalEntry:
            if not isinstance(entry, Result):
                return entry
            seen.append(entry.path)
            return Result(entry.path, entry.name, entry.request, entry.value, entry.spent, entry.elapsed)

    seen: list[str] = []

    model = ScriptedModel(tool_call("echo", text="x"), "done")
    agent = Agent(model, tools=[echo], middleware=[Anew()], store=store)
    assert (await agent.run("go")).text == "done"
    assert seen == ["agent/step-1/model", "agent/step-1/tool-1:echo", "agent/step-2/model", "agent"]


@pytest.mark.parametrize("value", sample([*NONSENSE, None, ToolResult("1", "x")], 4), ids=repr)
async def test_a_service_that_answers_with_nonsense_is_named(value: object) -> None:
    async def service(request: AgentRequest, ctx: Any) -> Any:
        return value

    odd: Runnable = Runnable(service, name="odd")
    with pytest.raises(ConfigurationError, match="AgentRun"):
        await odd.run("go")
    with pytest.raises(ConfigurationError, match="AgentRun"):
        async with open_stream(odd, AgentRequest((user("go"),))) as events:
            async for _ in events:
                pass


Messages = list[Message]


def without(role: str) -> Callable[[Messages], Messages]:
    return lambda messages: [message for message in messages if message.role != role]


BROKEN: dict[str, Callable[[Messages], Messages]] = {
    "no results": without("tool"),
    "no calls": without("assistant"),
    "one result less": lambda messages: messages[:-1],
    "a result twice": lambda messages: [*messages, messages[-1]],
    "results before calls": lambda messages: messages[::-1],
    "something between": lambda messages: [*messages[:-1], user("and?"), messages[-1]],
    "a result of another call": lambda messages: [*messages[:-1], tool_message(ToolResult("other", "echo", "x"))],
    "nothing": lambda messages: [],
}
WHOLE: dict[str, Callable[[Messages], Messages]] = {
    "unchanged": lambda messages: messages,
    "another question": lambda messages: [user("another"), *messages[1:]],
    "only the question": lambda messages: messages[:1],
    "one more message": lambda messages: [*messages, user("more")],
}


def changing(where: str, change: Callable[[Messages], Messages], name: str = "Odd") -> Middleware:
    """Return a middleware that changes the conversation of a request, or of the run that comes ``out`` of an agent."""

    def changed(value: Any) -> Any:
        messages = list(value.messages)
        if "model" in where:
            return replace(value, messages=Transcript.of(*change(messages))) if len(messages) > 1 else value
        if isinstance(value, AgentRun):
            return replace(value, messages=Transcript.of(*change(messages[:-2]), *messages[-2:]))
        return replace(value, messages=(*change(messages[:-1]), messages[-1]))

    async def hook(self: Middleware, value: Any, ctx: Any) -> Any:
        return changed(value)

    async def wrap(self: Middleware, value: Any, ctx: Any, inner: Any) -> Any:
        return changed(await inner(value, ctx)) if "out" in where else await inner(changed(value), ctx)

    code = wrap if where.startswith("wrap") else hook
    return cast("Middleware", type(name, (Middleware,), {where.partition(",")[0]: code})())


AT_MODELS = ("before_model", "wrap_model")
AT_AGENTS = ("before_agent", "wrap_agent", "after_agent", "wrap_agent, out")


def around(places: Iterable[str], where: str, change: str, others: int) -> list[Middleware]:
    """Return a middleware that changes a conversation, in the middle of as many others as there are places, or none."""
    whole = [changing(other, WHOLE["another question"], "Whole") for other in places] * others
    return [*whole[: len(whole) // 2], changing(where, {**BROKEN, **WHOLE}[change]), *whole[len(whole) // 2 :]]


def run_with(middleware: list[Middleware], streamed: bool) -> tuple[ScriptedModel, AgentRun]:
    calls = [tool_call("echo", id="1", text="a"), tool_call("echo", id="2", text="b")]
    model = ScriptedModel(calls, "end")
    agent = Agent(model, tools=[echo], middleware=middleware)
    listeners: list[Any] = [lambda event: None] if streamed else []
    try:
        return model, asyncio.run(agent.run("go", listeners=listeners))
    except ConfigurationError:
        assert len(model.calls) == 1
        raise


@pytest.mark.parametrize(
    ("change", "hook", "others", "streamed"), sample(pairs(BROKEN, AT_MODELS, [0, 1], [False, True]), 12)
)
def test_the_hook_that_breaks_a_conversation_is_named(hook: str, change: str, others: int, streamed: bool) -> None:
    with pytest.raises(ConfigurationError, match="cannot be sent") as caught:
        run_with(around(AT_MODELS, hook, change, others), streamed)
    assert f"agent/step-2/model: the hook {hook} of Odd" in str(caught.value)


@pytest.mark.parametrize(("change", "hook", "streamed"), pairs(WHOLE, AT_MODELS, [False, True]))
def test_a_hook_may_change_a_conversation_in_any_other_way(hook: str, change: str, streamed: bool) -> None:
    model, run = run_with([changing(hook, WHOLE[change])], streamed)
    assert run.text == "end"
    asked = [user("go"), *run.messages[1:-1]]
    assert list(model.last.messages) == WHOLE[change](asked)


def run_earlier(middleware: list[Middleware], depth: int) -> AgentRun:
    """Run an agent that continues a conversation with calls, called by another agent if there is a depth."""
    calls = [tool_call("echo", id="1", text="a"), tool_call("echo", id="2", text="b")]
    earlier = Agent(ScriptedModel(calls, "end"), tools=[echo]).run_sync("go").messages[:-1]
    inner = Agent(ScriptedModel("new"), middleware=middleware, name="inner")

    async def ask_inner() -> str:
        return (await inner.run("on", history=earlier)).text

    outer = Agent(ScriptedModel(tool_call("ask_inner"), "new"), tools=[ask_inner], name="outer")
    return outer.run_sync("go") if depth else inner.run_sync("on", history=earlier)


@pytest.mark.parametrize(
    ("change", "hook", "others", "depth"),
    rows([change for change in BROKEN if change != "nothing"], AT_AGENTS, [0, 1], [1, 0, 0]),
)
def test_a_hook_that_breaks_the_conversation_of_an_agent_is_named(
    hook: str, change: str, others: int, depth: int
) -> None:
    with pytest.raises(ConfigurationError, match="cannot be sent") as caught:
        run_earlier(around(AT_AGENTS, hook, change, others), depth)
    assert f"inner: the hook {hook.partition(',')[0]} of Odd" in str(caught.value)


@pytest.mark.parametrize(("change", "hook", "depth"), rows(WHOLE, AT_AGENTS, [0, 1]))
def test_a_hook_may_change_the_conversation_of_an_agent(hook: str, change: str, depth: int) -> None:
    assert run_earlier([changing(hook, WHOLE[change])], depth).messages[-1].text == "new"


async def test_a_hook_that_passes_on_something_else_to_an_agent_is_named() -> None:
    class Wrong(Middleware):
        async def wrap_agent(self, request: Any, ctx: Any, agent: Any) -> Any:
            return await agent("go", ctx)

    with pytest.raises(ConfigurationError, match="wrap_agent of Wrong"):
        await Agent(ScriptedModel("x"), middleware=[Wrong()]).run("go")


@pytest.mark.parametrize(
    "rewriting",
    [
        Rewrite(0, 4),
        Rewrite(1, 2),
        Rewrite(3, 4),
        Rewrite(2, 4, (tool_message(ToolResult("2", "echo")),)),
        Rewrite(-1, 1),
    ],
    ids=str,
)
def test_a_rewriting_that_breaks_a_conversation_is_named(rewriting: Rewrite) -> None:
    class Rewriting(Middleware):
        async def rewrite(self, request: Any, ctx: Any) -> Any:
            return rewriting if len(request.messages) > 1 else None

    with pytest.raises(ConfigurationError, match="Rewriting"):
        run_with([Rewriting()], streamed=False)


async def test_models_inside_several_wraps_keep_their_facts() -> None:
    """A shared cache takes the name of the model into its key, also through other wraps."""
    shared = everywhere(model=[cache(store=CacheStore())])
    unchanged = changing("wrap_model", WHOLE["unchanged"])
    for middleware in ([shared, unchanged], [unchanged, shared]):
        said = [
            (await Agent(ScriptedModel(f"I am {name}", name=name), middleware=middleware).run("Who?")).text
            for name in ("anna", "ben", "anna")
        ]
        assert said == ["I am anna", "I am ben", "I am anna"]
