"""`react`: the layer that lets a text-only model call tools."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.event import Dropped, Emit, Event, Passing
from ziggurat.core.path import is_beneath
from ziggurat.core.service import Fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Fold, Message, PartDelta, TextDelta, ToolCallDelta, deltas_of
from ziggurat.messages.model import OUTPUT_MODES, Model, ModelRequest, ModelResponse
from ziggurat.models.react_protocol.protocol import ReactParser, prompt_of

_ENDED_FOR_GOOD = ("content_filter", "refusal")  # asking again in the right form would not help


class _Reading:
    """One reply being read: text goes through the parser; the model's own thinking and images pass unchanged."""

    __slots__ = ("fold", "parser")

    def __init__(self, call_id: str) -> None:
        self.parser = ReactParser(call_id)
        self.fold = Fold()

    def push(self, delta: PartDelta) -> list[PartDelta]:
        if isinstance(delta, TextDelta):
            return self._kept(self.parser.feed(delta.text))
        return [] if isinstance(delta, ToolCallDelta) else self._kept([delta])

    def finish(self) -> list[PartDelta]:
        return self._kept(self.parser.finish())

    def _kept(self, deltas: list[PartDelta]) -> list[PartDelta]:
        for delta in deltas:
            self.fold.push(delta)
        return deltas


class _ReactEmit(Passing):
    """An `Emit` that turns the text deltas of a model into thinking, tool calls and answers."""

    def __init__(self, outer: Emit, path: str, call_id: str) -> None:
        super().__init__(outer)
        self._path = path
        self._call_id = call_id
        self.readings: dict[str, _Reading] = {}

    async def __call__(self, event: Event, /) -> None:
        if isinstance(event, Delta) and is_beneath(event.path, self._path):
            reading = self.readings.get(event.path)
            if reading is None:
                reading = self.readings[event.path] = _Reading(self._call_id)
            await self.tell(event.path, reading.push(event.delta))
            return
        if isinstance(event, Dropped):
            for path in [path for path in self.readings if is_beneath(path, event.path)]:
                del self.readings[path]
        await self.outer(event)

    async def tell(self, path: str, deltas: Iterable[PartDelta]) -> None:
        for delta in deltas:
            await self.outer(Delta(path, delta))

    async def settle(self, message: Message) -> None:
        emitted = False
        for path, reading in self.readings.items():
            rest = reading.finish()
            if not emitted and reading.fold.message() == message:
                await self.tell(path, rest)
                emitted = True
            else:
                await self.outer(Dropped(path, "another answer was taken"))
        if not emitted:
            await self.tell(self._path, deltas_of(message))


class React:
    """A model that uses the protocol; made by `react`. `inner` is the model that writes the text."""

    @checked
    def __init__(self, longest: int, inner: Model) -> None:
        self.inner: Model = inner
        self._longest = longest
        self.facts: Mapping[Fact[Any], object] = {OUTPUT_MODES: ("prompted",)}

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        call_id = f"react-{len(request.messages)}"
        prompt = prompt_of(request, self._longest)
        ear = _ReactEmit(ctx.emit, ctx.path, call_id) if ctx.listens(Delta) else None
        response = _read(await self.inner(prompt, ctx if ear is None else ctx.emitting(ear)), call_id)
        if ear is not None:
            await ear.settle(response.message)
        return response

    def __repr__(self) -> str:
        return f"react(max_observation={self._longest}) > {self.inner!r}"


def _read(response: ModelResponse, call_id: str) -> ModelResponse:
    reading = _Reading(call_id)
    for delta in deltas_of(response.message):
        reading.push(delta)
    reading.finish()
    parser, finish, raw = reading.parser, response.finish, response.raw
    if parser.fault is not None and finish not in _ENDED_FOR_GOOD:
        cut = " The reply was cut off at its greatest length; be brief." if finish == "length" else ""
        raw = {**(raw or {}), "malformed": parser.fault + cut}
        finish = "malformed"
    elif parser.called:
        finish = "tool_calls"
    elif finish == "tool_calls":
        finish = "stop"
    return replace(response, message=reading.fold.message(), finish=finish, raw=raw)


@checked
def react(*, max_observation: PositiveInt = 4000) -> Callable[[Model], Model]:
    """Let a model that only writes text call tools, in the Thought/Action/Observation protocol.

    The model gets the rules, the tools with their schemas, and the conversation as turns of the protocol. In its reply,
    ``Thought: ...`` becomes thinking, ``Action: tool {json}`` a tool call, and ``Action: FINAL_ANSWER text`` the
    answer; thinking and the answer are streamed. A reply that cannot be parsed finishes ``malformed``, and
    ``raw["malformed"]`` tells the model what is wrong with it.

    ::

        model = stack(text_model, react())

    Args:
        max_observation: How many characters of a tool's result the model gets.
    """
    return partial(React, max_observation)
