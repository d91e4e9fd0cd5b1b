"""Redaction: masks secrets in the input and output of models, in events, records and errors."""

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from ziggurat.core.context import Context
from ziggurat.core.errors import Suspend
from ziggurat.core.event import Dropped, Event, Passing
from ziggurat.core.path import is_beneath
from ziggurat.core.service import Service
from ziggurat.core.settings import checked
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.events import ToolDelta, ToolEnded
from ziggurat.messages.message import (
    DeltaFilter,
    PartDelta,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
)
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.middleware.secrets import Masking, Secrets, StreamMask

T = TypeVar("T")


class Redaction(Middleware):
    """Masks secrets in messages, events, records and errors of all calls below; list it first.

    ::

        Agent(model, middleware=[Redaction(os.environ["DATABASE_PASSWORD"], emails=True)])

    A secret that a model wrote does not reach a tool; one that a `before_tool` hook adds does. It is not recorded: to
    repeat such a call after a crash, the hooks must return the same arguments again.

    Args:
        literals: The secrets themselves, at least 4 characters long.
        patterns: Regular expressions with bounded matches, such as ``r"\\bACC-[0-9]{6,10}\\b"``.
        keys: Also mask provider keys, bearer tokens, private keys, and passwords in URLs.
        emails: Also mask email addresses.
        prompts: Also mask the requests to agents; without, a resumed run continues with the masked prompt.
        mask: The replacement for each secret.

    Raises:
        ConfigurationError: a literal is too short, or a pattern could take long; the message says how to fix it.
    """

    @checked
    def __init__(
        self,
        *literals: str,
        patterns: Iterable[str | re.Pattern[str]] = (),
        keys: bool = True,
        emails: bool = False,
        prompts: bool = True,
        mask: str = "[REDACTED]",
    ) -> None:
        self._masking = Masking(Secrets(literals, patterns, keys, emails, mask))
        self._prompts = prompts

    def masked(self, value: T) -> T:
        """Return a text, struct, container or error with secrets masked; for your own logs and reports."""
        return self._masking.value(value)

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest:
        return self.masked(request) if self._prompts else request

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Mask the instructions, as all hooks have left them, and the errors of the model."""
        instructions = request.instructions
        if instructions is not None and (masked := self.masked(instructions)) != instructions:
            request = ModelRequest(request.messages, masked, request.tools, request.settings, request.output)
        try:
            return await model(request, ctx)
        except Exception as error:
            self._raise_masked(error)
            raise

    def deltas(self, ctx: Context) -> DeltaFilter:
        return _Filter(self._masking)

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse:
        """Mask parts that are not streamed, and text that other hooks added."""
        return self.masked(response)

    async def wrap_tool(self, call: ToolCall, ctx: Context, tool: Service[ToolCall, ToolResult]) -> ToolResult:
        """Mask a tool's result and errors before other hooks get them."""
        try:
            return self.masked(await tool(call, ctx))
        except Exception as error:
            self._raise_masked(error)
            raise

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        """Mask the errors of hooks, and text that other hooks added."""
        return self.masked(result)

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Mask all events below, pending calls, and errors."""
        if not (isinstance(ctx.emit, _MaskingEmit) and ctx.emit.redaction is self):
            ctx = ctx.emitting(_MaskingEmit(ctx, self))
        try:
            return await agent(request, ctx)
        except Suspend as suspend:
            vars(suspend).update(self.masked(vars(suspend)))  # the pending calls, and the run so far
            raise
        except Exception as error:
            self._raise_masked(error)
            raise

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun:
        return self.masked(run)

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self._masking.error(error)

    def on_record(self, entry: JournalEntry) -> JournalEntry:
        return self.masked(entry)

    def _raise_masked(self, error: Exception) -> None:
        mended = self._masking.error(error)
        if mended is not error:
            raise mended from None

    def __repr__(self) -> str:
        return "Redaction()"


class _Filter:
    def __init__(self, masking: Masking) -> None:
        self._masking = masking
        self._text = StreamMask(masking.secrets)
        self._thought = StreamMask(masking.secrets)
        self.reset()

    def reset(self) -> None:
        self._text.reset()
        self._thought.reset()
        self._id: str | None = None
        self._calls: dict[int, list[str]] = {}

    def push(self, delta: PartDelta, /) -> Iterator[PartDelta]:
        if isinstance(delta, TextDelta):
            yield from self._flush_thought()
            if text := self._text.push(delta.text):
                yield TextDelta(text)
        elif isinstance(delta, ThinkingDelta):
            yield from self._flush_text()
            yield from self._push_thought(delta)
        else:
            yield from self._flush_text()
            yield from self._flush_thought()
            if isinstance(delta, ToolCallDelta):
                known = delta.index in self._calls
                self._calls.setdefault(delta.index, []).append(delta.arguments)
                if not known or delta.id or delta.name:
                    yield ToolCallDelta(delta.index, "", *map(self._masking.value, (delta.id, delta.name)))
            else:
                yield self._masking.value(delta)

    def flush(self) -> Iterator[PartDelta]:
        yield from self._flush_text()
        yield from self._flush_thought()
        for index, pieces in self._calls.items():
            if arguments := self._masking.json("".join(pieces)):
                yield ToolCallDelta(index, arguments)
        self._calls = {}

    def _push_thought(self, delta: ThinkingDelta) -> Iterator[PartDelta]:
        if delta.redacted is not None or (delta.id is not None and self._id is not None and delta.id != self._id):
            yield from self._flush_thought()
        if delta.id is not None:
            self._id = delta.id
        text = self._thought.push(delta.text)
        ends = delta.signature is not None or delta.redacted is not None
        if ends:
            text += self._thought.flush()
        signature = None if self._thought.altered else delta.signature
        if text or ends or delta.id is not None:
            yield ThinkingDelta(text, signature, delta.redacted, self._masking.value(delta.id))
        if ends:
            self._thought.reset()
            self._id = None

    def _flush_text(self) -> Iterator[PartDelta]:
        if rest := self._text.flush():
            yield TextDelta(rest)

    def _flush_thought(self) -> Iterator[PartDelta]:
        if rest := self._thought.flush():
            yield ThinkingDelta(rest)
        self._thought.reset()
        self._id = None


class _MaskingEmit(Passing):
    """An `Emit` that masks each event below an agent, and secrets that span pieces of a tool's output."""

    def __init__(self, ctx: Context, redaction: Redaction) -> None:
        super().__init__(ctx.emit)
        self.redaction = redaction
        self._tools: dict[str, StreamMask] = {}

    def listens(self, kind: type[Event], /) -> bool:
        return self.outer.listens(kind) or (kind in (ToolEnded, Dropped) and self.outer.listens(ToolDelta))

    async def __call__(self, event: Event, /) -> None:
        if isinstance(event, ToolDelta):
            incoming = self._tools.get(event.path)
            if incoming is None:
                incoming = self._tools[event.path] = StreamMask(self.redaction._masking.secrets)
            if text := incoming.push(event.text):
                await self.outer(ToolDelta(event.path, event.name, text))
            return
        if isinstance(event, ToolEnded):
            incoming = self._tools.pop(event.path, None)
            if incoming is not None and (rest := incoming.flush()):
                await self.outer(ToolDelta(event.path, event.call.name, rest))
        elif isinstance(event, Dropped):
            for path in [path for path in self._tools if is_beneath(path, event.path)]:
                del self._tools[path]
        await self.outer(self.redaction.masked(event))
