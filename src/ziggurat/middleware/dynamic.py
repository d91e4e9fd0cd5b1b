"""Middleware that chooses the instructions, tools and messages of each model call, and the tools that may be called."""

from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, PositiveInt, checked
from ziggurat.core.similar import check_patterns
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message, ToolCall
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import FINAL_ANSWER, ModelRequest
from ziggurat.messages.usage import estimate_tokens

Write = Callable[[ModelRequest, Context], str | Awaitable[str | None] | None]
"""Returns the instructions for a model request, or None to leave them unchanged."""


class DynamicPrompt(Middleware):
    """Replaces the instructions of each model request by those that a function returns.

    ::

        DynamicPrompt(lambda request, ctx: f"{request.instructions}\\nThe user is {ctx.scope[USER].name}.")

    It may be sync or async; None leaves them unchanged. Instructions that differ from step to step make a provider's
    prompt cache useless.
    """

    @checked
    def __init__(self, write: Write) -> None:
        self._write = write

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        written = self._write(request, ctx)
        text = await written if isinstance(written, Awaitable) else written
        if text is not None and not isinstance(text, str):
            raise ConfigurationError(f"the function of DynamicPrompt returns text or None, got {text!r}")
        return None if text is None else replace(request, instructions=text)


class AllowTools(Middleware):
    """Allows only certain tools, at any depth: others are hidden from models, and calls of them are refused.

    They are named by patterns with ``*`` and ``?``; without any, all tools are forbidden. Agents used as tools must be
    named too. Several `AllowTools` allow only tools that each of them allows.
    """

    @checked
    def __init__(self, *patterns: Annotated[NonEmptyText, Meta(description="such as 'read_*'")]) -> None:
        self.patterns = patterns

    def allows(self, name: str) -> bool:
        """Return whether a tool may be called."""
        return any(fnmatchcase(name, pattern) for pattern in self.patterns)

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        return _with_tools(request, {tool.name for tool in request.tools if self.allows(tool.name)})

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        if not self.allows(call.name):
            raise Denied(f"the tool {call.name!r} is not allowed here; allowed: {', '.join(self.patterns) or 'none'}")


Choose = Callable[[ModelRequest, Context], Iterable[str] | Awaitable[Iterable[str]]]
"""Returns the names of the tools to show to the model in this step."""


class DynamicTools(Middleware):
    """Shows models in each step only the tools that a function chooses.

    It may be sync or async; unknown names are ignored, with a warning. A model can still call a hidden tool that it
    knows of: to forbid tools use `AllowTools`.
    """

    @checked
    def __init__(self, choose: Choose) -> None:
        self._choose = choose

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        chosen = self._choose(request, ctx)
        if isinstance(chosen, Awaitable):
            chosen = await chosen
        if isinstance(chosen, str) or not isinstance(chosen, Iterable):
            raise ConfigurationError(f"the function of DynamicTools returns a list of names, got {chosen!r:.100}")
        names = set(chosen)
        check_patterns("DynamicTools: the request", names, {tool.name for tool in request.tools}, None)
        return _with_tools(request, names)


def _with_tools(request: ModelRequest, names: set[str]) -> ModelRequest | None:
    tools = tuple([tool for tool in request.tools if tool.name in names or tool.name == FINAL_ANSWER])
    if len(tools) == len(request.tools):
        return None
    settings = request.settings
    forced = settings.tool_choice
    hidden = forced in {tool.name for tool in request.tools} - {tool.name for tool in tools}
    if hidden or (forced == "required" and not tools):
        settings = replace(settings, tool_choice=None)
    return replace(request, tools=tools, settings=settings)


class Trim(Middleware):
    """Sends models the last messages, the first and the last, or as many as fit into a number of tokens.

    System messages are always sent, in front, and so are what the user asked last and the last message with the call
    that it answers. A call and its results stay together, and the conversation begins with a user's message.

    ::

        Trim(first=2, last=20)
        Trim(tokens=8_000)

    Args:
        last: The number of messages at the end.
        first: The number of messages at the start, in addition.
        tokens: The maximum tokens of the messages, as estimated by `estimate_tokens`; the oldest are left out first.
    """

    @checked
    def __init__(
        self, *, last: PositiveInt | None = None, first: NonNegativeInt = 0, tokens: PositiveInt | None = None
    ) -> None:
        if (last is None) == (tokens is None) or (first and last is None):
            raise ConfigurationError("give Trim(last=...), Trim(first=..., last=...), or Trim(tokens=...)")
        self.first = first
        self.last = last
        self.tokens = tokens

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        messages = request.messages
        if self.last is not None and len(messages) <= self.first + self.last:
            return None
        units = self._units(messages)  # more may have been added to the conversation since
        chosen = self._chosen(units if units.seen == len(messages) else units.first(len(messages)))
        if len(chosen) == len(messages):
            return None
        return replace(request, messages=Transcript.of(*[messages[at] for at in chosen]))

    def view(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a conversation that are sent."""
        units = _Units()
        units.add(messages, by_tokens=self.tokens is not None)
        return [messages[at] for at in self._chosen(units)]

    def _units(self, messages: Transcript) -> "_Units":
        before = messages.beginning
        key = (_Units, self.tokens is None)
        units: _Units = messages.note(
            key, lambda: _Units() if before is None else self._units(before).first(len(before))
        )
        units.add(messages[units.seen :], by_tokens=self.tokens is not None)
        return units

    def _chosen(self, units: "_Units") -> Sequence[int]:
        said, sums, begins = units.said, units.sums, units.begins
        if not said:
            return units.systems

        def unit_from(place: int) -> int:
            at = bisect_left(begins, place)
            return begins[at] if at < len(begins) else len(said)

        def start_within(after: int, bound: float) -> int:
            """Return from where on units are within the bound; the last one always is."""
            start = unit_from(max(after, bisect_left(sums, sums[-1] - bound)))
            return start if start < len(said) else max(after, begins[-1])

        left = (self.last or 0) if self.tokens is None else self.tokens - units.of_systems[-1]
        head = bisect_right(sums, self.first) - 1
        if unit_from(head) != head:  # a unit is sent whole, or not
            head = begins[bisect_left(begins, head) - 1]
        start, asked = start_within(head, left), list[int]()
        question = (units.people or units.users or [-1])[-1]
        if head <= question < start:  # the question is always sent
            end = unit_from(question + 1)
            start, asked = start_within(end, left - (sums[end] - sums[question])), said[question:end]
        elif not head and question >= 0:  # a conversation begins with a user's message
            start = units.users[bisect_left(units.users, start)]
        return (*units.systems, *said[:head], *asked, *said[max(head, start) :])


class _Units:
    """The places in a conversation where units begin, which stay together: a call with its results."""

    def __init__(self) -> None:
        self.seen = 0
        self.systems: list[int] = []  # the places of system messages
        self.said: list[int] = []  # those of all others; what follows are places in this list
        self.begins: list[int] = []
        self.users: list[int] = []
        self.people: list[int] = []  # those of users who are not other agents or the runtime
        self.sums: list[int] = [0]  # the sizes of the messages said before each
        self.of_systems: list[int] = [0]

    def add(self, messages: Iterable[Message], *, by_tokens: bool) -> None:
        for message in messages:
            size = _tokens(message) if by_tokens else 1
            if message.role == "system":
                self.systems.append(self.seen)
                self.of_systems.append(self.of_systems[-1] + size)
            else:
                place = len(self.said)
                self.said.append(self.seen)
                self.sums.append(self.sums[-1] + size)
                if message.role != "tool" or not place:
                    self.begins.append(place)
                if message.role == "user":
                    self.users.append(place)
                    if message.origin is None:
                        self.people.append(place)
            self.seen += 1

    def first(self, length: int) -> "_Units":
        units, said, systems = _Units(), bisect_left(self.said, length), bisect_left(self.systems, length)
        units.seen, units.said, units.systems = min(self.seen, length), self.said[:said], self.systems[:systems]
        units.sums, units.of_systems = self.sums[: said + 1], self.of_systems[: systems + 1]
        units.begins, units.users, units.people = (
            places[: bisect_left(places, said)] for places in (self.begins, self.users, self.people)
        )
        return units


def _tokens(message: Message) -> int:
    return estimate_tokens(encode(message.parts).decode())
