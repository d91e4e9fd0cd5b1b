"""Read a reply of Chat Completions: plain, or streamed, event by event.

A streamed reply is finished if the server sent a finish reason or ``[DONE]``; otherwise it was cut off. If only
``[DONE]`` was sent, calls whose arguments are not a JSON object count as cut off too.
"""

from typing import Any

import msgspec

from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.message import Fold, PartDelta, TextDelta, ToolCall, check_depth
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure, failure_of, redacted
from ziggurat.models.http.fitting import is_object
from ziggurat.models.http.stated import read
from ziggurat.models.openai import reading
from ziggurat.models.openai.reasoning import signature_delta, thought_deltas

_DECODER = msgspec.json.Decoder(reading.Chunk)
_decode = _DECODER.decode

_KEPT = ("service_tier", "system_fingerprint", "provider", "citations", "search_results")
"""The provider's own fields that are kept in `raw`."""


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a whole reply of Chat Completions."""
    try:
        reply = read(_DECODER, body)
    except ValueError as error:
        raise _malformed(f"it is not a reply of {dialect.name}: {error}", body) from None
    if reply.error or reply.object == "error":
        raise failure_of(reply.error or {"message": reply.message}, dialect, status=200)
    if not reply.choices:
        raise _malformed("it holds no choices", body)
    choice = next((choice for choice in reply.choices if choice.index == 0), reply.choices[0])
    if choice.error:
        raise failure_of(choice.error, dialect, status=200)
    return Reader(dialect).whole(reply, choice)


def _malformed(why: str, body: bytes) -> ModelError:
    beginning = redacted(body[:200].decode("utf-8", "replace"))
    return ModelError(f"the reply cannot be read: {why}; it begins {beginning!r}", kind="malformed")


class Reader:
    """Turns the events of one stream into deltas, and into the response at its end."""

    __slots__ = (
        "_annotations",
        "_broken",
        "_calls",
        "_dialect",
        "_done",
        "_finish",
        "_fold",
        "_ids",
        "_kept",
        "_native",
        "_refusal",
        "_usage",
    )

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._fold = Fold()
        self._calls = reading.CallReader()
        self._usage: reading.UsageShape | None = None
        self._ids: list[str] = ["", ""]  # the reply's id and model
        self._kept = reading.Chunk()
        self._finish: str | None = None
        self._native: str | None = None
        self._done = False
        self._broken: str | None = None  # an event that could not be read; if it is the last, it was cut off
        self._refusal: list[str] = []
        self._annotations: Any = None

    def push(self, event: ServerEvent) -> list[PartDelta]:
        data = event.data
        if data[:1] != "{":
            if not data or data.isspace():
                return []
            if data.strip() == "[DONE]":
                self._done = True
                return []
        if self._broken is not None:
            start = redacted(self._broken[:200])
            unread = f"an event of {self._dialect.name}'s stream cannot be read: {start!r}"
            raise self._with_partial(ModelError(unread, kind="malformed"))
        if event.event == "error":
            raise self._with_partial(failure(None, {}, data, self._dialect))
        try:
            check_depth(data)
            chunk = _decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            try:
                chunk = read(_DECODER, data)
            except ValueError:
                self._broken = data
                return []
        if chunk.usage is not None:
            self._usage = reading.merge_usage(self._usage, chunk.usage)
        if chunk.error or chunk.object == "error":
            raise self._with_partial(failure_of(chunk.error or {"message": chunk.message}, self._dialect))
        choice = next((each for each in chunk.choices or () if not each.index), None)
        if choice is not None and self._begins_anew(chunk, choice):
            raise self._interrupted("another reply began in its stream")
        self._note(chunk)
        return [] if choice is None else self._read(choice)

    def _begins_anew(self, chunk: reading.Chunk, choice: reading.Choice) -> bool:
        """Return whether a chunk begins another reply, as of a gateway that asks again while the first one streams."""
        known, begins = self._ids[0], choice.delta is not None and choice.delta.role is not None
        return bool(begins and known and chunk.id and reading.name_of(chunk.id) != known and self._began)

    @property
    def _began(self) -> bool:
        return bool(self._fold.message().parts)

    def _note(self, chunk: reading.Chunk) -> None:
        """Keep the fields of the reply as a whole: the first id and model, and the latest of the rest."""
        ids = self._ids
        if not ids[0]:
            ids[0] = reading.name_of(chunk.id)
        if not ids[1]:
            ids[1] = chunk.model or ""
        if not self._kept.id or chunk.citations or chunk.search_results:
            self._kept = chunk

    def _read(self, choice: reading.Choice) -> list[PartDelta]:
        if choice.error:
            raise self._with_partial(failure_of(choice.error, self._dialect))
        delta = choice.delta
        deltas: list[PartDelta] = [] if delta is None else self._deltas(delta)
        if choice.finish_reason:
            self._finish = choice.finish_reason
            self._native = choice.native_finish_reason
        push = self._fold.push
        for each in deltas:
            push(each)
        return deltas

    def _deltas(self, delta: reading.ChunkDelta) -> list[PartDelta]:
        deltas: list[PartDelta] = []
        if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
            thoughts = (delta.reasoning, delta.reasoning_content, delta.reasoning_details)
            deltas.extend(thought_deltas(*thoughts, self._dialect))
        content = delta.content
        if content:
            deltas.extend((TextDelta(content),) if isinstance(content, str) else reading.content_deltas(content))
        if delta.refusal:
            self._refusal.append(delta.refusal)
            deltas.append(TextDelta(delta.refusal))
        if delta.tool_calls:
            deltas.extend(self._calls.read(delta.tool_calls))
        if delta.annotations:
            self._annotations = delta.annotations
        signature = signature_delta(delta.extra_content) if delta.extra_content else None
        if signature is not None:
            deltas.append(signature)
        return deltas

    def _interrupted(self, why: str) -> ModelError:
        return self._with_partial(StreamInterrupted(f"the reply of {self._dialect.name} was cut: {why}"))

    def _with_partial(self, error: ModelError) -> ModelError:
        """Add the message so far to an error, without calls that are not whole, and the usage if there is any."""
        message = self._fold.message()
        parts = [part for part in message.parts if not isinstance(part, ToolCall) or is_object(part.arguments)]
        error.partial = msgspec.structs.replace(message, parts=tuple(parts))
        if self._usage is not None:
            error.usage = reading.usage_of(self._usage)[0]
        return error

    def finish(self) -> ModelResponse:
        """Return the response, once the server has ended the stream."""
        why = self._cut(self._fold.message().tool_calls)
        if why:
            raise self._interrupted(why)
        return self._response("other")

    def whole(self, reply: reading.Chunk, choice: reading.Choice) -> ModelResponse:
        """Return the response of a plain reply, which is read as the one chunk of a stream."""
        choice.delta = choice.message
        for index, call in enumerate((choice.message or reading.ChunkDelta()).tool_calls or ()):
            call.index = index
        self._usage = reading.merge_usage(None, reply.usage)
        self._note(reply)
        self._read(choice)
        return self._response("stop")

    def _response(self, unsaid: FinishReason) -> ModelResponse:
        message, refusal = self._fold.message(), "".join(self._refusal)
        finish = reading.finish_of(self._finish, calls=bool(message.tool_calls), refused=bool(refusal), unsaid=unsaid)
        usage, own = reading.usage_of(self._usage)
        raw = {name: value for name in _KEPT if (value := getattr(self._kept, name))}
        if self._finish != finish:
            raw["finish_reason"] = self._finish
        if self._native and self._native != self._finish:
            raw["native_finish_reason"] = self._native
        if self._usage is not None and self._usage.cost is not None:
            raw["cost"] = self._usage.cost
        further = {"usage": own, "refusal": refusal, "annotations": self._annotations}
        raw.update((name, value) for name, value in further.items() if value)
        identity, name = self._ids
        return ModelResponse(reading.mark_cut_calls(message, finish), finish, usage, name, identity, raw or None)

    def _cut(self, calls: tuple[ToolCall, ...]) -> str:
        if self._broken is not None:
            return "its last event is not whole"
        if self._finish:
            return ""
        if not self._done:
            return "it ended without a reason"
        if any(not is_object(call.arguments) for call in calls):
            return "the arguments of a tool call are not whole"
        return ""
