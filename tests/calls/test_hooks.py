"""The chain of hooks: each is called in order, and told of an error once."""

import logging
from collections.abc import Awaitable, Callable

import pytest

from tests.calls.given import given
from tests.core.hand import run
from ziggurat import Context, Event, Middleware, ModelResponse
from ziggurat.calls.agent_call import AGENT_CALL, AgentCall
from ziggurat.calls.enter import AgentParts
from ziggurat.calls.hooks import HookChain, hooked, tell
from ziggurat.core import root
from ziggurat.core.context import AMBIENT
from ziggurat.events import MiddlewareCompleted, MiddlewareStarted
from ziggurat.messages import assistant
from ziggurat.messages.middleware import HOOKS


class Notes(Middleware):
    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.errors.append(error)


class Broken(Middleware):
    async def on_error(self, error: BaseException, ctx: Context) -> None:
        raise RuntimeError("in the hook")


class Changing(Middleware):
    def __init__(self, change: Callable[[str, Context], Awaitable[str | None]]) -> None:
        self.change = change

    async def on_tool_delta(self, text: str, ctx: Context) -> str | None:
        return await self.change(text, ctx)


async def unchanged(value: str, ctx: Context) -> str | None:
    return None


async def changed(value: str, ctx: Context) -> str | None:
    return value.upper()


async def failing(value: str, ctx: Context) -> str | None:
    raise ValueError("no")


async def empty(value: str, ctx: Context) -> str | None:
    return ""


def test_a_hook_returns_the_value_to_go_on_with() -> None:
    assert run(hooked(Changing(unchanged), "on_tool_delta", "x", root())) == "x"
    assert run(hooked(Changing(changed), "on_tool_delta", "x", root())) == "X"
    assert run(hooked(Changing(empty), "on_tool_delta", "x", root())) == ""


def test_a_hook_is_told_of_and_its_end_only_when_it_did_not_fail() -> None:
    heard: list[Event] = []
    ctx = root().heard_by(heard.append)
    run(hooked(Changing(unchanged), "on_tool_delta", "x", ctx))
    assert heard == [
        MiddlewareStarted("run", "Changing", "on_tool_delta"),
        MiddlewareCompleted("run", "Changing", "on_tool_delta"),
    ]
    heard.clear()
    with pytest.raises(ValueError, match="no"):
        run(hooked(Changing(failing), "on_tool_delta", "x", ctx))
    assert heard == [MiddlewareStarted("run", "Changing", "on_tool_delta")]


def test_inside_a_hook_the_context_is_ambient_and_not_after_it() -> None:
    seen: list[Context | None] = []

    async def look(value: str, ctx: Context) -> None:
        seen.append(AMBIENT.get())

    async def main(ctx: Context) -> None:
        await hooked(Changing(look), "on_tool_delta", "x", ctx)
        seen.append(AMBIENT.get())

    ctx = root()
    run(main(ctx))
    first, after = seen
    assert first is not None
    assert (first.path, first.scope) == ("run/Changing.on_tool_delta", ctx.scope)
    assert after is None


async def _within_agents() -> Context:
    ctx = root().within(AGENT_CALL, AgentCall(AgentParts("outer", None), root()))
    return ctx.within(AGENT_CALL, AgentCall(AgentParts("inner", None), ctx))


async def test_every_middleware_is_told_of_an_error_once_however_far_it_goes(caplog: pytest.LogCaptureFixture) -> None:
    first, last = Notes(), Notes()
    chain = HookChain([first, Broken(), last])
    error = ValueError("no")
    ctx = await _within_agents()
    with caplog.at_level(logging.WARNING, "ziggurat"):
        await tell(chain, error, ctx.under("tool"))
        await tell(chain, error, ctx)
    assert first.errors == last.errors == [error]
    assert [record.getMessage() for record in caplog.records] == ["on_error of Broken failed"]


async def test_the_same_error_in_another_run_is_told_again() -> None:
    notes, error = Notes(), ValueError("no")
    for _ in range(2):
        await tell(HookChain([notes]), error, await _within_agents())
    assert notes.errors == [error, error]


def test_an_error_that_cannot_be_written_upon_is_told() -> None:
    class Frozen(Exception):
        def __setattr__(self, name: str, value: object) -> None:
            raise AttributeError("frozen")

    notes = Notes()
    run(tell(HookChain([notes]), Frozen(), root()))
    assert len(notes.errors) == 1


class Quiet(Middleware):
    """Overrides nothing."""


class Loud(Middleware):
    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse | None:
        return ModelResponse(assistant(response.text.upper()))


class Louder(Loud):
    async def on_error(self, error: BaseException, ctx: Context) -> None:
        raise RuntimeError


def test_the_chain_knows_who_overrides_what() -> None:
    quiet, loud, louder = Quiet(), Loud(), Louder()
    chain = HookChain([quiet, loud, louder])
    assert chain.middlewares == (quiet, loud, louder)
    assert chain.hooks["after_model"] == (loud, louder)
    assert chain.hooks["on_error"] == (louder,)
    assert chain.hooks["before_tool"] == ()
    assert chain.has("before_tool", "after_model")
    assert not chain.has("before_tool", "wrap_tool")


def test_every_hook_is_listed() -> None:
    stated = {name for name in vars(Middleware) if not name.startswith("_")} - {"name"}
    assert set(HOOKS) == stated
    assert set(HookChain().hooks) == stated


def test_middlewares_without_hooks_are_not_even_in_the_scope() -> None:
    ctx = root()
    assert given(ctx, Quiet(), Quiet()) is ctx
