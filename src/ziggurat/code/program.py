"""A program that makes calls of tools: each is numbered, made as any other call, and compared with the record."""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from ziggurat.calls.hooks import MIDDLEWARE, NO_CHAIN
from ziggurat.calls.tool_call import act, call_tools
from ziggurat.code.stubs import BATCHED, Stub
from ziggurat.core.codec import Raw, as_type, decode
from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.path import escaped
from ziggurat.journal.entries import Record, fingerprint
from ziggurat.journal.journal import journal_of
from ziggurat.messages.message import ToolCall
from ziggurat.sandbox.sandbox import ProgramError, ProgramErrorKind, Sandbox, Session
from ziggurat.tools.toolbox import Toolbox

_KINDS: Mapping[str, ProgramErrorKind] = {
    "denied": "PermissionError",
    "invalid_arguments": "ValueError",
    "timeout": "TimeoutError",
}


class Program(Struct, eq=False):
    """The calls of one program, below the context of the call that runs it; those in batches are limited."""

    box: Toolbox
    stubs: Mapping[str, Stub]
    ctx: Context
    id: str
    left: int
    count: int = 0
    recorded: dict[str, str] = {}

    def __post_init__(self) -> None:
        self.recorded = self._recorded_names()

    async def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a call of the program, in which its error is raised unless another call was made here before."""
        stub = self.stubs.get(name)
        self.count += 1  # calls are numbered by their order, which a program repeats
        if stub is None:
            return await self._call_together(self.stubs[name.removesuffix(BATCHED)], args, kwargs)
        call = stub.call(f"{self.id}-{self.count}", args, kwargs)
        place = f"call-{self.count}:{escaped(call.name)}"
        self._check(place, call)
        result = await act(self.box, call, self.ctx.at(place))
        if result.error is not None:
            raise ProgramError(_KINDS.get(result.error, "RuntimeError"), result.text)
        return stub.value(result.text)

    async def _call_together(self, stub: Stub, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        inputs = args[0] if len(args) == 1 and not kwargs else next(iter(kwargs.values()), None)
        if not isinstance(inputs, list):
            raise ProgramError("TypeError", "it takes one list")
        if len(inputs) > self.left:
            raise ProgramError("RuntimeError", f"the program may make {self.left:,} more calls in batches")
        self.left -= len(inputs)
        named = [((), each) if isinstance(each, dict) else ((each,), {}) for each in inputs]
        calls = tuple(stub.call(f"{self.id}-{self.count}-{n}", *each) for n, each in enumerate(named, 1))
        step = f"call-{self.count}"
        for number, each in enumerate(calls, 1):
            self._check(f"{step}/tool-{number}:{escaped(each.name)}", each)
        results = await call_tools(self.box, calls, self.ctx, step)
        return [stub.value(each.text) if each.error is None else f"[ERROR] {each.text}" for each in results]

    # -- the record ----------------------------------------------------------------------------------------------

    def _recorded_names(self) -> dict[str, str]:
        """Return the names of the calls that the program has made before, by their places without these."""
        journal = journal_of(self.ctx)
        if not journal.reopened:
            return {}
        pattern = re.compile(rf"{re.escape(self.ctx.path)}/(call-\d+(?:/tool-\d+)?)(?::([^/]*))?")
        found = (pattern.fullmatch(path) for path in journal.paths())
        return {each[1]: each[2] for each in found if each is not None and each[2]}

    def _check(self, place: str, call: ToolCall) -> None:
        number, _, name = place.rpartition(":")
        was = self.recorded.get(number)
        record = None if was is None else journal_of(self.ctx).find(f"{self.ctx.path}/{place}")
        if was is not None and (was != name or (record is not None and self._differs(record, call))):
            raise ToolError(
                f"the program was interrupted, and made other calls when it was run again, at {number} {call.name} "
                f"where it was {was}: it was ended, as no call may be made twice; write another one",
                kind="interrupted",
            )

    def _differs(self, record: Record, call: ToolCall) -> bool:
        outcome = record.made or (record.outcomes[-1] if record.outcomes else None)
        if journal_of(self.ctx).is_screened:  # what is redacted cannot be compared
            return False
        if outcome is not None:
            was = outcome.request
            return (decode(was, str) if isinstance(was, Raw) else fingerprint(was)) != call.fingerprint()
        begun = record.intent or record.pending
        if begun is None or (self.ctx.scope.get(MIDDLEWARE) or NO_CHAIN).hooks["before_tool"]:
            return False
        return as_type(begun.request, ToolCall).arguments != self.box.normalize(call).arguments


# -- the start ---------------------------------------------------------------------------------------------------------


class _Start(Struct, frozen=True):
    now: float
    seed: int


async def open_sandbox(sandbox: Sandbox, ctx: Context) -> AbstractAsyncContextManager[Session]:
    """Return a block with a session, which finds the time and the random numbers of its first run each time."""
    start = await ctx.at("start").once("start", None, _begin, returns=_Start)
    return sandbox.open(datetime.fromtimestamp(start.now, UTC), start.seed)


async def _begin(_: None, ctx: Context) -> _Start:
    return _Start(ctx.clock.now(), int(ctx.random() * 2**53))
