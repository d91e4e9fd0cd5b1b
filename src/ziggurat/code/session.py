"""Sessions: programs that run one after another in a sandbox, where variables are kept, and again after a crash."""

import asyncio
import re
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from ziggurat.agents.output import AnswerReader
from ziggurat.code.program import Program, open_sandbox
from ziggurat.code.stubs import code_in, type_of
from ziggurat.code.tool import CodeTool
from ziggurat.core.codec import as_type, encode
from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError, InvalidArguments, Suspend, ToolError
from ziggurat.core.path import escaped
from ziggurat.journal.journal import journal_of
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.middleware import ParsedAnswer
from ziggurat.sandbox.sandbox import ProgramError, ProgramResult, Sandbox, Session
from ziggurat.tools.toolbox import Toolbox

_DESCRIPTION = """\
Run a Python program in a session that keeps its variables. Its printed output and the value of its last line are
returned, up to {limit:,} characters. There are {variables}these functions, without await:

{stubs}
def submit(answer: {answer}) -> None:
    'Give the final answer, and end.'

{batches}
{rules}"""

_PREVIEW = 300

_ANSWER = "submitted: "  # the beginning of the result of a program that has given the answer


class _Given(BaseException):
    """Raised by ``submit``; not for the program, which ends with it."""


class SessionTool(CodeTool):
    """A tool that runs programs in the session of the agent that calls it, which begins with variables."""

    def __init__(
        self, tools: Toolbox, variables: Mapping[str, Any], sandbox: Sandbox, output: AnswerReader | None = None
    ) -> None:
        self.variables = variables
        self._output = output
        super().__init__(tools, sandbox=sandbox)
        taken = variables.keys() & set(self.functions)
        if taken:
            raise ConfigurationError(f"the name {min(taken)!r} is taken by a function: name the variable otherwise")

    @property
    def functions(self) -> tuple[str, ...]:
        return (*super().functions, "submit")

    def describe(self, description: str = _DESCRIPTION, **more: object) -> str:
        shown = "\n".join(_shown(name, value) for name, value in self.variables.items())
        variables = f"the variables\n\n{shown}\n\nand " if shown else ""
        answer = "Any" if self._output is None else type_of(self._output.value_schema, self._output.schema)
        return super().describe(description, limit=self.sandbox.output, variables=variables, answer=answer, **more)

    async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
        try:
            result = await super().__call__(call, ctx)
        except _Given as given:
            return ToolResult(call.id, call.name, f"{_ANSWER}{given}", None, call.name)
        if answer_in(result) is not None:  # the program has only printed it
            return ToolResult(call.id, call.name, f"\n{result.text}", None, call.name)
        return result

    async def run_program(self, call: ToolCall, ctx: Context) -> ProgramResult:
        result = await ctx.scope[SESSION].run(call, ctx)
        if result.lost:
            lost = "The session has ended: all variables are as at first."
            raise ToolError("\n".join(filter(None, (result.output, result.error, lost))), kind="interrupted")
        return result

    def read(self, answer: str) -> ParsedAnswer:
        """Return an answer of which a program has given the JSON; InvalidArguments if it does not fit the output."""
        if self._output is None:
            return ParsedAnswer(msgspec.json.decode(answer))
        return self._output.read(f'{{"value": {answer}}}' if self._output.wrapped else answer)

    def given(self, answer: Any) -> BaseException:
        """Return what ends a program that gives an answer; raise for the program why it is none."""
        text = encode(answer).decode()
        try:
            if self.read(text).value is not None:
                return _Given(text)
        except InvalidArguments as error:
            raise ProgramError("ValueError", str(error)) from None
        raise ProgramError("ValueError", "the answer must not be None")


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{name}: str, {len(value):,} characters, which begin with {value[:_PREVIEW]!r}"
    size = f", {len(value):,} items" if isinstance(value, (list, dict)) else ""
    return f"{name}: {type(value).__name__}{size}"


def answer_in(result: ToolResult) -> str | None:
    given = result.error is None and result.text.startswith(_ANSWER)
    return result.text.removeprefix(_ANSWER) if given else None


class Sessions:
    """The session of one run of an agent, opened by its first program; programs run in it one after another."""

    def __init__(self, tool: SessionTool, ctx: Context) -> None:
        self._tool = tool
        self._ctx = ctx
        self._lock = asyncio.Lock()
        self._open = AsyncExitStack()
        self._session: Session | None = None
        self._waits: Suspend | None = None

    async def run(self, call: ToolCall, ctx: Context) -> ProgramResult:
        async with self._lock:
            if self._waits is not None:  # a later program of the same reply needs what this one will have done
                raise self._waits
            try:
                if self._session is None:
                    await self._restore(ctx)
                result = await self._run(call, ctx)
            except BaseException as error:
                self._waits = error if isinstance(error, Suspend) else None
                await self.close()
                raise
            if result.lost:
                await self.close()
            return result

    async def close(self) -> None:
        self._session = None
        await self._open.aclose()

    async def _run(self, call: ToolCall, ctx: Context) -> ProgramResult:
        assert self._session is not None
        tool = self._tool
        program = Program(tool.tools, tool.stubs, ctx, call.id, tool.sandbox.calls)

        async def answer(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if name == "submit":
                raise tool.given(next(iter((*args, *kwargs.values())), None))
            return await program.call(name, args, kwargs)

        return await self._session.run(code_in(call), answer, tool.functions)

    async def _restore(self, ctx: Context) -> None:
        """Open a session, and run what was run in it before, whose calls are answered from the record."""
        session = await self._open.enter_async_context(await open_sandbox(self._tool.sandbox, self._ctx))
        self._session = session
        await session.run("None", _refuse, (), self._tool.variables)
        for path, call in self._earlier(ctx.path):
            await self._run(call, Context(path, ctx.emit, ctx.watch, ctx.scope))

    def _earlier(self, path: str) -> list[tuple[str, ToolCall]]:
        """Return the programs of this session that have ended, with their places; a lost one takes all before along."""
        journal, name = journal_of(self._ctx), escaped(self._tool.name)
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
        return earlier


SESSION: Key[Sessions] = Key("code session")


async def _refuse(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    raise NotImplementedError
