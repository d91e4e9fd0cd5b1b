"""Turn what a hand-written model returns into a response, and stream it to listeners."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import NAME, Fact
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.messages.events import Delta
from ziggurat.messages.message import (
    Fold,
    Message,
    Part,
    PartDelta,
    Text,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    deltas_of,
    refolded,
)
from ziggurat.messages.model import MODEL_NAME, OUTPUT_MODES, WINDOW, FinishReason, ModelResponse, OutputMode
from ziggurat.messages.usage import Usage

_DEFAULT_ID = "call"  # the default id of `tool_call`
OutputModes = Annotated[Sequence[OutputMode], Meta(min_length=1, description="best first")]


@checked
def model_facts(
    name: NonEmptyText, window: PositiveInt | None, output_modes: OutputModes
) -> Mapping[Fact[Any], object]:
    return {NAME: name, MODEL_NAME: name, WINDOW: window, OUTPUT_MODES: tuple(output_modes)}


def _finish(message: Message) -> FinishReason:
    return "tool_calls" if message.tool_calls else "stop"


def response_of(reply: object, *, model: str, usage: Usage) -> ModelResponse | None:
    if isinstance(reply, str):
        return ModelResponse(Message("assistant", (Text(reply),) if reply else ()), usage=usage, model=model)
    if isinstance(reply, ToolCall):
        return ModelResponse(Message("assistant", (reply,)), "tool_calls", usage, model)
    if isinstance(reply, ModelResponse):
        _check_role(reply.message, model)
        return reply
    if isinstance(reply, Message):
        _check_role(reply, model)
        reply = refolded(reply)
        return ModelResponse(reply, _finish(reply), usage, model)
    return None


def _check_role(message: Message, model: str) -> None:
    if message.role != "assistant":
        raise ConfigurationError(
            f"the model {model!r} answered with a message of the role {message.role!r}; "
            "a model answers with assistant(...) or a plain text"
        )


class Collector:
    def __init__(self, ctx: Context, model: str, usage: Usage) -> None:
        self._ctx = ctx
        self._model = model
        self.usage: Usage = usage
        self.fold: Fold = Fold()
        self.finish: FinishReason | None = None
        """Why the reply ended, if not by its parts."""
        self._calls = 0
        self._defaults = 0
        self._listening = ctx.listens(Delta)

    async def push(self, item: object) -> None:
        if isinstance(item, str):
            await self._tell(TextDelta(item))
        elif isinstance(item, PartDelta):
            if isinstance(item, ToolCallDelta):
                self._calls = max(self._calls, item.index + 1)
            await self._tell(item)
        elif isinstance(item, ToolCall):
            await self._tell(ToolCallDelta(self._calls, item.arguments, self._id(item), item.name))
            self._calls += 1
        elif isinstance(item, Part):
            for delta in deltas_of(Message("assistant", (item,))):
                await self._tell(delta)
        elif isinstance(item, Usage):
            self.usage = item
        else:
            raise ConfigurationError(
                f"the model {self._model!r} gave a piece of the type {type(item).__name__}; pieces of a reply are "
                "texts, deltas (TextDelta, ThinkingDelta, ToolCallDelta, WholePart), tool calls and other parts"
            )

    def _id(self, call: ToolCall) -> str:
        """Return a unique id for a call: ids must differ within a reply, so default ids are numbered."""
        if call.id != _DEFAULT_ID:
            return call.id
        self._defaults += 1
        return call.id if self._defaults == 1 else f"{call.id}-{self._defaults}"

    async def _tell(self, delta: PartDelta) -> None:
        self.fold.push(delta)
        if self._listening:
            await self._ctx.emit(Delta(self._ctx.path, delta))

    def response(self) -> ModelResponse:
        message = self.fold.message()
        return ModelResponse(message, self.finish or _finish(message), self.usage, self._model)
