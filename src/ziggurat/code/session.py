"""Sessions: programs that run one after another in a sandbox, where variables are kept, and again after a crash."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.agents.output import AnswerReader
from ziggurat.code.program import Program
from ziggurat.code.program_start import begun
from ziggurat.code.source import code_in
from ziggurat.code.stubs import Stub, functions_of
from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import InvalidArguments, Suspend
from ziggurat.core.path import escaped
from ziggurat.journal.journal import journal_of
from ziggurat.messages.caller import ParsedAnswer
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.sandbox.sandbox import ProgramError, ProgramResult, Sandbox, Session
from ziggurat.tools.toolbox import Toolbox

ANSWER = "submitted: "
"""The beginning of the result of a program that has given the answer."""


class Given(BaseException):
    """Raised by ``submit``; not for the program, which ends with it."""

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.text: str = ANSWER + answer


class Setting(Struct, frozen=True, eq=False):
    """What a session begins with: the name of the tool that runs its programs, their tools, functions and variables.

    `output` reads the answers that they give; without one these are text or plain data.
    """

    name: str
    tools: Toolbox
    stubs: Mapping[str, Stub]
    variables: Mapping[str, Any]
    sandbox: Sandbox
    output: AnswerReader | None = None

    @property
    def functions(self) -> tuple[str, ...]:
        """The names that programs may call."""
        return (*functions_of(self.stubs), "submit")

    def read(self, answer: str) -> ParsedAnswer:
        """Return an answer of which a program has given the JSON.

        Raises:
            InvalidArguments: it does not fit the type of the output.
        """
        if self.output is None:
            return ParsedAnswer(msgspec.json.decode(answer))
        return self.output.read(f'{{"value": {answer}}}' if self.output.wrapped else answer)

    def given(self, answer: Any) -> "Given":
        """Return what ends a program that gives an answer; for the program, why it is none."""
        text = encode(answer).decode()
        try:
            if self.read(text).value is not None:
                return Given(text)
        except InvalidArguments as error:
            raise ProgramError("ValueError", str(error)) from None
        raise ProgramError("ValueError", "the answer must not be None")


class Sessions:
    """The session of one run of an agent, opened by its first program; programs run in it one after another.

    Args:
        setting: What it begins with.
        ctx: The context of the agent.
    """

    def __init__(self, setting: Setting, ctx: Context) -> None:
        self._setting = setting
        self._ctx = ctx
        self._lock = asyncio.Lock()
        self._open = AsyncExitStack()
        self._session: Session | None = None
        self._waits: Suspend | None = None

    async def __aenter__(self) -> "Sessions":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    async def run(self, call: ToolCall, ctx: Context) -> ProgramResult:
        """Run the program of a call."""
        async with self._lock:
            if self._waits is not None:  # a later program of the same reply needs what this one will have done
                raise self._waits
            try:
                if self._session is None:
                    await self._restore(ctx)
                result = await self._run(call, ctx)
            except BaseException as error:
                self._waits = error if isinstance(error, Suspend) else None
                await self._close()
                raise
            if result.lost:
                await self._close()
            return result

    async def _close(self) -> None:
        self._session = None
        await self._open.aclose()

    async def _run(self, call: ToolCall, ctx: Context) -> ProgramResult:
        assert self._session is not None
        setting = self._setting
        program = Program(setting.tools, setting.stubs, ctx, call.id, setting.sandbox.calls)

        async def answer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if name == "submit":
                raise setting.given(next(iter((*args, *kwargs.values())), None))
            return await program.call(name, args, kwargs)

        return await self._session.run(code_in(call), answer, self._setting.functions)

    async def _restore(self, ctx: Context) -> None:
        """Open a session, and run what was run in it before, whose calls are answered from the record."""
        start = await begun(self._ctx)
        session = await self._open.enter_async_context(self._setting.sandbox.open(start.time, start.seed))
        self._session = session
        await session.run("None", _refuse, (), self._setting.variables)
        for path, call in self._earlier(ctx.path):
            await self._run(call, Context(path, ctx.emit, ctx.watch, ctx.scope))

    def _earlier(self, path: str) -> Iterator[tuple[str, ToolCall]]:
        """Yield the programs of this session that have ended, with their places; a lost one takes all before along."""
        journal, name = journal_of(self._ctx), escaped(self._setting.name)
        pattern = re.compile(rf"{re.escape(self._ctx.path)}/step-(\d+)/tool-(\d+):{re.escape(name)}")
        places = sorted((int(m[1]), int(m[2]), m[0]) for m in map(pattern.fullmatch, journal.paths()) if m is not None)
        earlier: list[tuple[str, ToolCall]] = []
        for _, _, place in places:
            record = journal.find(place)
            if place == path or record is None or record.result is None:
                continue
            if as_type(record.result.value, ToolResult).error == "interrupted":
                earlier.clear()
            else:
                request = record.result.request if record.intent is None else record.intent.request
                earlier.append((place, as_type(request, ToolCall)))
        yield from earlier


SESSION: Key[Sessions] = Key("code session")
"""The session of the agent that runs."""


async def _refuse(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise NotImplementedError
