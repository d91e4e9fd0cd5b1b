"""ScriptedModel: a model that follows a script, for tests and examples without a network."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Union

import msgspec

from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.service import Fact
from ziggurat.core.settings import CheckedStruct, NonEmptyText, NonNegativeSeconds, PositiveInt, checked
from ziggurat.core.tasks import closed
from ziggurat.messages.events import Delta
from ziggurat.messages.message import Message, Part, PartDelta, ToolCall, deltas_in_words, refolded
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models import reply as answers
from ziggurat.models.reply import OutputModes


class Pause(CheckedStruct, frozen=True):
    """A place in a script where the model waits, for some seconds or for one turn of the event loop.

    Attributes:
        seconds: How long, by the clock of the run; 0 waits for one turn of the event loop, so that other tasks can run.
    """

    seconds: NonNegativeSeconds = 0.0


Piece = str | PartDelta | Part | Usage | Pause | BaseException | type[BaseException] | asyncio.Event
"""A step in the script of one reply: a piece of the reply, a wait, or an error to raise."""

ScriptedReply = Annotated[
    Union[  # noqa: UP007 - a text that stands for a type cannot be joined with |
        str,
        Message,
        ToolCall,
        ModelResponse,
        BaseException,
        type[BaseException],
        Sequence[Piece],
        Callable[[ModelRequest], "ScriptedReply"],
    ],
    msgspec.Meta(
        title="text, a Message, a ToolCall, a ModelResponse, an error, a list of pieces, or a function of the request"
    ),
]
"""What a script may reply with."""

ReplyRule = Annotated[
    tuple[str | Callable[[ModelRequest], bool], ScriptedReply],
    msgspec.Meta(title="pair of a condition, a text or a function of the request, and a reply"),
]
"""A condition (a test of the request, or a text that its last message contains), and the reply if it holds."""


class ScriptedModel:
    """Answers by script: with the first rule that fits, else the next reply, else `always`.

    A reply is a text, a Message, a ToolCall, a ModelResponse, an exception to raise, or a list of pieces that are
    streamed one by one: texts, deltas, tool calls, exceptions (raised at that place), ``Pause(seconds)``,
    an asyncio.Event to wait for, and a Usage for the whole reply. A function of the request may return any of these.
    Whole messages are streamed to listeners word by word. All requests are kept in `calls`.

    ::

        model = ScriptedModel(tool_call("add", a=1, b=2), "The sum is 3.")
        model = ScriptedModel(["Hel", Pause(), "lo", ConnectionError("lost")], "Hello")
        model = ScriptedModel(rules=[("weather", tool_call("weather", city="Rome"))], always="I do not know.")

    Args:
        replies: One for each call, in order; shared by all runs unless `per_run`.
        rules: Pairs of a condition and a reply, tried in order before anything else.
        always: The reply when no rule fits and no replies are left.
        name: The model's name.
        usage: The usage of each reply that states none.
        window: Its context window in tokens, if it matters.
        output_modes: The ways it supports typed output, best first.
        per_run: Start every run with the first reply.

    Raises:
        ConfigurationError: a reply is none of the above, there is no reply at all, or another argument is invalid;
            while running, if no replies are left.
    """

    @checked
    def __init__(
        self,
        *replies: ScriptedReply,
        rules: Sequence[ReplyRule] = (),
        always: ScriptedReply | None = None,
        name: NonEmptyText = "scripted",
        usage: Usage = Usage(requests=1),  # noqa: B008 - frozen
        window: PositiveInt | None = None,
        output_modes: OutputModes = ("tool", "prompted"),
        per_run: bool = False,
    ) -> None:
        self.name = name
        self.facts: Mapping[Fact[Any], object] = answers.model_facts(name, window, output_modes)
        self.calls: list[ModelRequest] = []
        self._usage = usage
        self._replies = [self._prepare(reply, f"reply {at}") for at, reply in enumerate(replies, 1)]
        self._rules = [self._rule(rule, at) for at, rule in enumerate(rules, 1)]
        self._always = None if always is None else self._prepare(always, "always")
        self._per_run = per_run
        self._positions: dict[str, int] = {}
        if not replies and not rules and always is None:
            raise ConfigurationError(
                "ScriptedModel needs replies: ScriptedModel('one', 'two') for one reply per call, "
                "ScriptedModel(always='same') forever the same, or rules=[(condition, reply)]"
            )

    @property
    def last(self) -> ModelRequest:
        """The request of the latest call.

        Raises:
            ConfigurationError: the model has not been called.
        """
        if not self.calls:
            raise ConfigurationError(f"the scripted model {self.name!r} has not been called")
        return self.calls[-1]

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        self.calls.append(request)
        reply = self._pick(request, ctx)
        while callable(reply) and not isinstance(reply, type):
            reply = self._prepare(reply(request), "what the function returned")
        if isinstance(reply, (BaseException, type)):
            raise _fresh(reply)
        if isinstance(reply, ModelResponse):
            if ctx.listens(Delta):
                for delta in deltas_in_words(reply.message):
                    await ctx.emit(Delta(ctx.path, delta))
            return reply
        return await self._play(reply, ctx)

    async def _play(self, pieces: Sequence[Piece], ctx: Context) -> ModelResponse:
        collector = answers.Collector(ctx, self.name, self._usage)
        for piece in pieces:
            if isinstance(piece, Pause):
                await (ctx.clock.sleep(piece.seconds) if piece.seconds else asyncio.sleep(0))
            elif isinstance(piece, asyncio.Event):
                await piece.wait()
            elif isinstance(piece, (BaseException, type)):
                raise _fresh(piece)
            else:
                await collector.push(piece)
        return collector.response()

    def _pick(self, request: ModelRequest, ctx: Context) -> "_Prepared":
        for condition, reply in self._rules:
            if condition(request):
                return reply
        run = (ctx.scope.get(RUN_ID) or "") if self._per_run else ""
        position = self._positions.get(run, 0)
        if position < len(self._replies):
            self._positions[run] = position + 1
            return self._replies[position]
        if self._always is None:
            length = f"{len(self._replies)} replies" if len(self._replies) != 1 else "1 reply"
            raise ConfigurationError(
                f"the scripted model {self.name!r} was called {'again in this run ' if self._per_run else ''}after "
                f"its script had run out: it was given {length}"
                + (f" and {len(self._rules)} rule(s), none of which fits" if self._rules else "")
                + f"; this is call {len(self.calls)}. Add a reply, or give always=... for what comes after"
            )
        return self._always

    def _prepare(self, reply: ScriptedReply, where: str) -> "_Prepared":
        whole = answers.response_of(reply, model=self.name, usage=self._usage)
        if whole is not None:
            return msgspec.structs.replace(whole, message=refolded(whole.message))
        if isinstance(reply, BaseException) or (isinstance(reply, type) and issubclass(reply, BaseException)):
            return reply
        if isinstance(reply, (list, tuple)) and reply:
            for at, piece in enumerate(reply):
                _check_piece(piece, f"piece {at} of {where}")
            return reply
        if callable(reply) and not isinstance(reply, type):
            return reply
        raise ConfigurationError(
            f"{where} of the scripted model {self.name!r} is {closed(reply)!r}; a reply is a text, a Message, a "
            "ToolCall, a ModelResponse, an exception, a function of the request, or a list of pieces that is not empty"
        )

    def _rule(self, rule: ReplyRule, at: int) -> "tuple[Callable[[ModelRequest], bool], _Prepared]":
        condition, reply = rule
        test = _holds(condition) if isinstance(condition, str) else condition
        return test, self._prepare(reply, f"the reply of rule {at}")

    def __repr__(self) -> str:
        parts = [f"{len(self._replies)} replies"] if self._replies else []
        parts += [f"{len(self._rules)} rules"] if self._rules else []
        parts += ["always"] if self._always is not None else []
        return f"scripted({self.name!r}, {', '.join(parts)})"


_Prepared = (
    ModelResponse | BaseException | type[BaseException] | Sequence[Piece] | Callable[[ModelRequest], ScriptedReply]
)


def _check_piece(piece: object, where: str) -> None:
    if isinstance(piece, type) and issubclass(piece, BaseException):
        return
    if not isinstance(piece, (str, PartDelta, Part, Usage, Pause, BaseException, asyncio.Event)):
        raise ConfigurationError(
            f"{where} is {piece!r}; pieces are texts, deltas, tool calls and other parts, exceptions, Pause(seconds), "
            "an asyncio.Event, and a Usage"
        )


def _fresh(error: BaseException | type[BaseException]) -> BaseException:
    """Return the error without its traceback, because it may be raised in many runs."""
    return error() if isinstance(error, type) else error.with_traceback(None)


def _holds(text: str) -> Callable[[ModelRequest], bool]:
    def holds(request: ModelRequest) -> bool:
        if not len(request.messages):
            return False
        message = request.messages[-1]
        return text in message.text or any(text in result.text for result in message.tool_results)

    return holds
