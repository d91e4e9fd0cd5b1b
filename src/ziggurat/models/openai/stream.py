"""Read a streamed reply of Chat Completions, event by event.

A reply is finished if the server sent a finish reason or ``[DONE]``; otherwise it was cut off. If only ``[DONE]`` was
sent, calls whose arguments are not a JSON object count as cut off too.
"""

from typing import Any

import msgspec

from ziggurat.core.errors import ModelError, StreamInterrupted
from ziggurat.http.sse import ServerEvent
from ziggurat.messages.delta import Fold, PartDelta, TextDelta, WholePart
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolCall
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.http.failures import failure, failure_of, redacted
from ziggurat.models.http.fitting import is_object
from ziggurat.models.http.stated import read
from ziggurat.models.openai import reading
from ziggurat.models.openai.from_wire import raw_of
from ziggurat.models.openai.reasoning import signature_delta, thought_deltas
from ziggurat.models.openai.shapes import Chunk, ChunkChoice, ChunkDelta, UsageShape, name_of

_DECODER = msgspec.json.Decoder(Chunk)
_decode = _DECODER.decode


class Reader:
    """Turns the events of one stream into deltas, and into the response at its end."""

    __slots__ = (
        "_audio",
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
        self._usage: UsageShape | None = None
        self._ids: list[str] = ["", ""]  # the reply's id and model
        self._kept = Chunk()
        self._finish: str | None = None
        self._native: str | None = None
        self._done = False
        self._broken: str | None = None  # an event that could not be read; if it is the last, it was cut off
        self._refusal: list[str] = []
        self._audio: dict[str, Any] | None = None

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

    def _begins_anew(self, chunk: Chunk, choice: ChunkChoice) -> bool:
        """Return whether a chunk begins another reply, as of a gateway that asks again while the first one streams."""
        known, begins = self._ids[0], choice.delta is not None and choice.delta.role is not None
        return bool(begins and known and chunk.id and name_of(chunk.id) != known and self._began)

    @property
    def _began(self) -> bool:
        return bool(self._fold.message().parts)

    def _note(self, chunk: Chunk) -> None:
        """Keep the fields of the reply as a whole: the first id and model, and the latest of the rest."""
        ids = self._ids
        if not ids[0]:
            ids[0] = name_of(chunk.id)
        if not ids[1]:
            ids[1] = chunk.model or ""
        if not self._kept.id or chunk.citations or chunk.search_results:
            self._kept = chunk

    def _read(self, choice: ChunkChoice) -> list[PartDelta]:
        if choice.error:
            raise self._with_partial(failure_of(choice.error, self._dialect))
        delta = choice.delta
        deltas: list[PartDelta] = [] if delta is None else self._deltas(delta)
        if choice.finish_reason:
            if self._finish is None and self._audio is not None:
                sound = reading.part_of_audio(self._audio, "audio/pcm")
                deltas.extend([WholePart(sound)] if sound is not None else ())
            self._finish = choice.finish_reason
            self._native = choice.native_finish_reason
        push = self._fold.push
        for each in deltas:
            push(each)
        return deltas

    def _deltas(self, delta: ChunkDelta) -> list[PartDelta]:
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
        if delta.tool_calls or delta.function_call is not None:
            deltas.extend(self._calls.read(delta.tool_calls or (), delta.function_call))
        if delta.images:
            deltas.extend(reading.media_deltas(delta.images))
        if delta.audio:
            self._hear(delta.audio)
        signature = signature_delta(delta.extra_content) if delta.extra_content else None
        if signature is not None:
            deltas.append(signature)
        return deltas

    def _hear(self, audio: Any) -> None:
        if not isinstance(audio, dict):
            return
        known = self._audio = self._audio or {"data": [], "transcript": []}
        data, transcript, name = audio.get("data"), audio.get("transcript"), audio.get("id")
        if isinstance(data, str):
            known["data"].append(data)
        if isinstance(transcript, str):
            known["transcript"].append(transcript)
        if isinstance(name, str):
            known["id"] = name

    def partial(self) -> Message:
        """Return the message so far, without calls whose arguments are not complete."""
        message = self._fold.message()
        parts = tuple([part for part in message.parts if not isinstance(part, ToolCall) or is_object(part.arguments)])
        return msgspec.structs.replace(message, parts=parts)

    def _interrupted(self, why: str) -> ModelError:
        return self._with_partial(StreamInterrupted(f"the reply of {self._dialect.name} was cut: {why}"))

    def _with_partial(self, error: ModelError) -> ModelError:
        """Add the message so far to an error, and the usage if the server has sent any."""
        error.partial = self.partial()
        if self._usage is not None:
            error.usage = reading.usage_of(self._usage)[0]
        return error

    def finish(self) -> ModelResponse:
        """Return the response, once the server has ended the stream."""
        message = self._fold.message()
        calls = message.tool_calls
        why = self._cut(calls)
        if why:
            raise self._interrupted(why)
        finish = reading.finish_of(self._finish, calls=bool(calls), refused=bool(self._refusal), unsaid="other")
        usage, own = reading.usage_of(self._usage)
        self._kept.usage = self._usage and msgspec.to_builtins(self._usage)
        raw = raw_of(self._kept, finish, self._finish, self._native)
        fields = {
            "usage": own,
            "refusal": "".join(self._refusal),
            "transcript": "".join((self._audio or {}).get("transcript", ())),
            "custom_calls": self._calls.custom,
        }
        raw.update((name, value) for name, value in fields.items() if value)
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
