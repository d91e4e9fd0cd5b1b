"""FunctionModel: a model made from your own function."""

import inspect
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Fact
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.reply import Collector, OutputModes, model_facts, response_of

_Form = Literal["messages", "request", "request and context"]
_FORMS = "(messages), (request) or (request, ctx)"
_ONE_CALL = Usage(requests=1)


class FunctionModel:
    """Answers with what a function returns; for tests, rules, and models without a provider.

    The function takes ``(messages)``, ``(request)`` or ``(request, ctx)``, distinguished by the number and names of
    parameters (or by the annotation ModelRequest), and may be async. It returns a text, a Message, a ToolCall or a list
    of them, a ModelResponse, or an iterator (async or not) of texts and deltas, which are streamed as they come. A
    plain function runs on the event loop, so it must not block.

    ::

        shout = FunctionModel(lambda messages: messages[-1].text.upper())

    Args:
        function: The function that answers.
        name: The model's name in paths, journals and responses.
        window: Its context window in tokens, if known.
        output_modes: The ways it supports typed output, best first.

    Raises:
        ConfigurationError: the function takes other parameters; while running, if it returns something that is not a
            reply.
    """

    __slots__ = ("_form", "_function", "facts", "name")

    @checked
    def __init__(
        self,
        # not ``Callable[..., Any]``, with which the parameters of a lambda would be unknown
        function: Annotated[Callable[[Any], Any] | Callable[[Any, Any], Any], Meta(description=f"that takes {_FORMS}")],
        *,
        name: NonEmptyText = "function",
        window: PositiveInt | None = None,
        output_modes: OutputModes = ("tool", "prompted"),
    ) -> None:
        self.name: NonEmptyText = name
        self.facts: Mapping[Fact[Any], object] = model_facts(name, window, output_modes)
        self._function: Callable[..., Any] = function
        self._form = _form(function)

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        if self._form == "request and context":
            reply = self._function(request, ctx)
        else:
            reply = self._function(request if self._form == "request" else request.messages)
        if hasattr(reply, "__await__"):
            reply = await reply
        return response_of(reply, model=self.name, usage=_ONE_CALL) or await self._collect(reply, ctx)

    async def _collect(self, reply: object, ctx: Context) -> ModelResponse:
        collector = Collector(ctx, self.name, _ONE_CALL)
        try:
            if isinstance(reply, AsyncIterator):
                async for piece in reply:
                    await collector.push(piece)
            elif isinstance(reply, Iterator) or (isinstance(reply, (list, tuple)) and reply):
                for piece in reply:
                    await collector.push(piece)
            else:
                what = "an empty list" if reply in ([], ()) else type(reply).__name__
                raise ConfigurationError(
                    f"the function of the model {self.name!r} returned {what}; it returns a text, a Message, "
                    "a ToolCall or a list of them, a ModelResponse, or an iterator of texts and deltas"
                )
        finally:
            if isinstance(reply, AsyncGenerator):
                await reply.aclose()
            elif isinstance(reply, Generator):
                reply.close()
        return collector.response()

    def __repr__(self) -> str:
        return f"function({self.name!r})"


def _form(function: Callable[..., Any]) -> _Form:
    name = getattr(function, "__name__", None) or type(function).__name__
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise ConfigurationError(
            f"cannot see what {name}() takes; wrap it: FunctionModel(lambda request: {name}(...))"
        ) from None
    parameters = signature.parameters.values()
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    if not positional:
        raise ConfigurationError(f"FunctionModel needs a function that takes {_FORMS}; {name}{signature} does not")
    if len(positional) > 1 and (positional[1].default is inspect.Parameter.empty or positional[1].name == "ctx"):
        return "request and context"
    return _single(positional[0], f"{name}{signature}")


def _single(parameter: inspect.Parameter, signature: str) -> _Form:
    if parameter.annotation in (ModelRequest, "ModelRequest") or parameter.name.startswith("_"):
        return "request"
    if parameter.name == "messages" or re.search("Message|Transcript", str(parameter.annotation)):
        return "messages"
    if parameter.name == "request" and parameter.annotation not in (Context, "Context"):
        return "request"
    raise ConfigurationError(
        f"cannot tell what {signature} wants: name its parameter 'messages' to be given the conversation, or 'request' "
        f"to be given the whole ModelRequest; FunctionModel takes functions of {_FORMS}"
    )
