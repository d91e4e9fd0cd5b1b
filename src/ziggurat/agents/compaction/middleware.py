"""Compaction: the middleware that shortens conversations before a model call and after a context overflow."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from ziggurat.agents.compaction.reducers import Drop, Excerpt, Mask, Recent, Reducer, Span, units
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ContextOverflow, ServiceError, described
from ziggurat.core.service import as_service
from ziggurat.core.settings import CheckedStruct, PositiveInt, Share, checked
from ziggurat.journal.entries import shared
from ziggurat.messages.conversation import Rewrite, characters
from ziggurat.messages.events import Warned
from ziggurat.messages.message import Message, ToolResult, tool_message
from ziggurat.messages.middleware import Middleware, RewriteRequest

_REDUCERS: tuple[Reducer, ...] = (Mask(), Drop())  # the default reducers, which call no model

_AIM = 0.6  # the fraction of the limit to shorten to, so that the next step is not too long again

_WORTH = 0.1  # the fraction of a conversation that must be reducible for compaction to be worthwhile

Orphans = Literal["answer", "drop", "keep", "refuse"]  # each is answered, dropped, kept, or refused


Selector = Callable[..., list[Span]]
"""Chooses the ranges that may be shortened: called as a `Recent` is, with messages, `level` and `minimum`."""


class Trigger(CheckedStruct, frozen=True):
    """A condition on the next model request; ``one | other`` holds if either does, ``&`` if both do.

    `due` returns whether to compact, `limit` the most tokens that the request may have without compaction, or None.
    """

    due: Callable[[RewriteRequest], bool]
    limit: Callable[[RewriteRequest], int | None] = lambda request: None
    description: str = "Trigger()"

    def __or__(self, other: "Trigger") -> "Trigger":
        return Trigger(
            lambda request: self.due(request) or other.due(request),
            lambda request: min(self._limits(other, request), default=None),
            f"{self} | {other}",
        )

    def __and__(self, other: "Trigger") -> "Trigger":
        return Trigger(
            lambda request: self.due(request) and other.due(request),
            lambda request: max(self._limits(other, request), default=None),
            f"({self} & {other})",
        )

    def _limits(self, other: "Trigger", request: RewriteRequest) -> list[int]:
        return [limit for each in (self, other) if (limit := each.limit(request)) is not None]

    def __repr__(self) -> str:
        return self.description


@checked
def at_fraction(fraction: Share) -> Trigger:
    """Compact at this fraction of the model's window or more; never if the window is unknown."""

    def due(request: RewriteRequest) -> bool:
        return request.window is not None and request.tokens >= fraction * request.window

    return Trigger(
        due,
        lambda request: None if request.window is None else int(fraction * request.window),
        f"at_fraction({fraction:g})",
    )


@checked
def over_tokens(tokens: PositiveInt) -> Trigger:
    """Compact above this many tokens, instructions and tools included."""
    return Trigger(lambda request: request.tokens > tokens, lambda request: tokens, f"over_tokens({tokens})")


@checked
def over_turns(turns: PositiveInt) -> Trigger:
    """Compact above this many user messages."""
    return Trigger(lambda request: request.turns > turns, description=f"over_turns({turns})")


@checked
def over_messages(messages: PositiveInt) -> Trigger:
    """Compact above this many messages of any kind."""
    return Trigger(lambda request: len(request.messages) > messages, description=f"over_messages({messages})")


class Compaction(Middleware):
    """Shortens the conversation of an agent, and of all agents below it, when it grows too long.

    ::

        Agent(model, middleware=[Compaction(at_fraction(0.8), reduce=[Mask(), Summary()])])

    `run.messages` is the shortened conversation: system messages, the replacement of earlier messages, recent messages;
    `run.history` has all messages.

    Args:
        when: When to compact before a model call. A context overflow reported by the model always triggers it too.
        keep: Selects the messages that stay unchanged.
        reduce: Shortens the rest: one reducer, or several that are applied in turn until it is short enough.
        window: The model's context window in tokens, if the model does not state it.
        tries: How often to compact for one request that the model reports as too long.
        orphans: Calls without a result: ``"answer"`` them with a note, ``"drop"``, ``"keep"``, or ``"refuse"`` them.
    """

    @checked
    def __init__(
        self,
        when: Trigger | None = None,
        *,
        keep: Selector | None = None,
        reduce: Reducer | Sequence[Reducer] = _REDUCERS,
        window: PositiveInt | None = None,
        tries: PositiveInt = 4,
        orphans: Orphans = "answer",
    ) -> None:
        self.when: Trigger = when or at_fraction(0.8)
        self.keep: Selector | Recent = keep or Recent(messages=10)
        reducers = reduce if isinstance(reduce, Sequence) else (reduce,)
        self.reducers: tuple[Reducer, ...] = tuple(map(as_service, reducers))
        self.window = window
        self.tries = tries
        self.orphans = orphans
        if not self.reducers or not all(callable(each) for each in (*self.reducers, self.keep)):
            raise ConfigurationError("Compaction(keep=..., reduce=...) take a selector and at least one reducer")

    async def rewrite(self, request: RewriteRequest, ctx: Context) -> Rewrite | None:
        """Return how to shorten the conversation, or None; raise ContextOverflow if that is needed and impossible."""
        if self.window is not None:
            request = replace(request, window=self.window)
        if request.overflow is None:
            result = await self._shorten(request, ctx, self.when.limit(request), 1) if self.when.due(request) else None
            if result is not None and result.fault and ctx.listens(Warned):
                await ctx.emit(Warned(ctx.path, f"compaction: {result.fault}"))
            return result
        if request.tries > self.tries:
            raise ContextOverflow(f"still too long after {self.tries} compactions: {request.overflow}")
        # The size to stay below is at most that of the request that was too long, whatever else is known.
        limit = min(request.tokens, request.window or request.tokens, self.when.limit(request) or request.tokens)
        result = await self._shorten(request, ctx, limit, minimum=0)
        if result is None or not result.changes:
            why = f": {result.fault}" if result is not None else ""
            raise ContextOverflow(f"the conversation is too long ({request.overflow}) and cannot be made shorter{why}")
        return result

    async def _shorten(self, request: RewriteRequest, ctx: Context, limit: int | None, minimum: int) -> Rewrite | None:
        before = list(request.messages)
        messages = _repair_orphans(before, self.orphans)
        room = None if limit is None else int(limit * _AIM) - request.fixed
        spans = self._spans(messages, room, minimum)
        there = sum(characters(message) for start, end in spans for message in messages[start:end])
        if not there or (minimum and there < _WORTH * sum(map(characters, messages))):
            return None if messages is before else _difference(before, messages)
        parts = [tuple(messages[start:end]) for start, end in spans]
        others = sum(map(characters, messages)) - there
        room = None if room is None else room - others // 4

        by: list[str] = []
        faults: list[str] = []
        for reducer in self.reducers:
            name = getattr(reducer, "__name__", type(reducer).__name__)
            try:
                parts = [
                    _made(await reducer(Excerpt(part, request.model, room), ctx.under(name)), name) if part else part
                    for part in parts
                ]
            except (ServiceError, OSError) as error:  # a summariser without a connection does not end the run
                faults.append(f"{name} failed: {described(error)}")
                continue
            by.append(name)
            shorter = _replace_spans(messages, spans, parts)
            if room is not None and sum(characters(message) for part in parts for message in part) // 4 > room:
                continue
            if request.overflow is not None or not self.when.due(request.with_messages(shorter)):
                break
        shorter = _replace_spans(messages, spans, parts)
        fault = "; ".join(faults)
        if sum(map(characters, shorter)) >= sum(map(characters, before)):
            fault = fault or f"{' > '.join(by)} made it no shorter"
            return replace(_difference(before, messages), by="Compaction", fault=fault)
        return replace(_difference(before, shorter), by=" > ".join(by), fault=fault)

    def _spans(self, messages: list[Message], room: int | None, minimum: int) -> list[Span]:
        """Select the ranges to shorten; select more than `keep` asks for if the rest would not fit."""
        for level in range(len(messages).bit_length() + 1):
            spans = self.keep(messages, level=level, minimum=minimum)
            covered = {index for start, end in spans for index in range(start, end)}
            uncovered = sum(characters(message) for index, message in enumerate(messages) if index not in covered)
            if room is None or uncovered // 4 <= room:
                break
        return [(start, end) for start, end in spans if any(message.origin is None for message in messages[start:end])]


def _made(messages: object, name: str) -> tuple[Message, ...]:
    if isinstance(messages, Sequence) and all(isinstance(each, Message) for each in messages):
        return tuple(messages)
    raise ConfigurationError(f"the reducer {name} returns a list of messages; got {messages!r:.200}")


def _replace_spans(messages: list[Message], spans: list[Span], parts: Sequence[tuple[Message, ...]]) -> list[Message]:
    conversation: list[Message] = []
    at = 0
    for (start, end), part in zip(spans, parts, strict=True):
        conversation += [*messages[at:start], *part]
        at = end
    return conversation + messages[at:]


def _difference(before: list[Message], after: list[Message]) -> Rewrite:
    start = shared(before, after)
    tail = shared(before[start:][::-1], after[start:][::-1])
    return Rewrite(start, len(before) - tail, tuple(after[start : len(after) - tail]))


def _repair_orphans(messages: list[Message], orphans: Orphans) -> list[Message]:
    blocks: list[tuple[list[Message], bool]] = []  # each with whether a call in it is not answered
    for start, end in units(messages):
        known = {result.id for message in messages[start + 1 : end] for result in message.tool_results}
        blocks.append((messages[start:end], any(call.id not in known for call in messages[start].tool_calls)))
    lost = sum(is_lost for _, is_lost in blocks)
    if not lost or orphans == "keep":
        return messages
    if orphans == "refuse":
        raise ConfigurationError(
            f"cannot compact: {lost} message(s) of the conversation hold calls without a result; "
            "answer them, or give orphans='answer' or 'drop'"
        )
    conversation: list[Message] = []
    for block, is_lost in blocks:
        if not is_lost:
            conversation += block
        elif orphans == "answer":
            conversation += _answer_calls(block)
    return conversation


def _answer_calls(block: list[Message]) -> list[Message]:
    results = {result.id: result for message in reversed(block[1:]) for result in message.tool_results}
    text = "no result of this call is known"
    answers = [
        results.get(call.id) or ToolResult(call.id, call.name, text, "interrupted", call.name)
        for call in block[0].tool_calls
    ]
    between = [message for message in block[1:] if message.role != "tool"]
    return [block[0], *map(tool_message, answers), *between]
