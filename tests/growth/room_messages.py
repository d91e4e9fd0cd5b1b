"""The readers, validators, folds and renderers of `messages`, `core` and `stores`."""

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from tests.growth.measure import Case, Make
from tests.growth.shapes import JSON, SHAPES, TEXT, limits, pieces, value_of
from ziggurat import Image, Text, ToolCall, ToolResult
from ziggurat.agents.partial import partial as partial_json
from ziggurat.calls.inbox import Inbox
from ziggurat.core.codec import Raw, as_error, canonical, check_depth, decode, digest, encode
from ziggurat.core.errors import text_of
from ziggurat.core.event import difference
from ziggurat.core.visible import escaped_json, visible, visible_line
from ziggurat.events import Fold, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import read_entry
from ziggurat.journal.store import InboxItem
from ziggurat.messages import (
    Message,
    Thinking,
    Transcript,
    ValidationPolicy,
    estimate_tokens,
    items_to_messages,
    messages_to_items,
    user,
    validate,
    validate_all,
)
from ziggurat.messages.arguments import canonical as canonical_arguments, check_size, unique_object
from ziggurat.messages.conversation import Conversation, without_repeats
from ziggurat.messages.message import Part, PartDelta, WholePart, deltas_of, fit, refolded
from ziggurat.messages.posted import read_posted
from ziggurat.messages.recorded import shown
from ziggurat.messages.validation import validate_rewrite
from ziggurat.runs.control import RunControl
from ziggurat.stores.session_log import latest, latest_from_question, read_session_entry, whole


def over(name: str, run: Any, shapes: Iterable[str], **limits: Any) -> list[Case]:
    """Return a case for each shape of text."""
    return [Case(name, shape, SHAPES[shape], run, **limits) for shape in shapes]


def values(name: str, run: Any, shapes: Iterable[str] = JSON) -> list[Case]:
    """Return a case for each shape of JSON as decoded values."""
    return [Case(name, shape, value_of(shape), run, **limits(shape)) for shape in shapes]


def decoding(name: str, run: Any) -> list[Case]:
    """Return a case for each shape of JSON, for what decodes it and does with the values as much as with those."""
    return [Case(name, shape, SHAPES[shape], run, **limits(shape)) for shape in JSON]


def given(name: str, run: Any, makes: dict[str, Make], **limits: Any) -> list[Case]:
    """Return a case for each way to make its input, of a few thousand items if no other limit is given."""
    return [Case(name, shape, make, run, **{"least": 250, "most": 16_000, **limits}) for shape, make in makes.items()]


def _posted(text: str) -> object:
    return read_posted(b'{"type":"event","name":"paid","value":' + text.encode("utf-8", "replace") + b"}")


def assistant(parts: Iterable[Part]) -> Message:
    return Message("assistant", tuple(parts))


MESSAGES: dict[str, Make] = {
    "calls with one id": lambda size: assistant(ToolCall("c", "f") for _ in range(size)),
    "calls without ids": lambda size: assistant(ToolCall("", "f") for _ in range(size)),
    "calls with ids like those given": lambda size: assistant(
        ToolCall("c" if number % 2 else f"c-{number}", "f") for number in range(size)
    ),
    "chains of ids": lambda size: assistant(ToolCall("c" + "-1" * (number % 9), "f") for number in range(size)),
    "thoughts with proof": lambda size: assistant(Thinking(f"t{number}", "s") for number in range(size)),
    "one thought again and again": lambda size: assistant(Thinking("t", "s") for _ in range(size)),
    "thoughts at the end": lambda size: assistant([Text("a"), *(Thinking("t") for _ in range(size))]),
    "thoughts between texts": lambda size: assistant(
        part for number in range(size // 2) for part in (Thinking(f"t{number}", id=f"rs_{number}"), Text("x"))
    ),
    "many small texts": lambda size: assistant(Text("x") for _ in range(size)),
    "empty texts": lambda size: assistant(Text("") for _ in range(size)),
    "results": lambda size: assistant(ToolResult("c", "f", "x") for _ in range(size)),
    "half characters": lambda size: assistant([Text("\ud83d" * size)]),
    "pictures": lambda size: assistant(Image(url="x") for _ in range(size)),
}
"""Messages that a model might send."""


def one(role: Any, *parts: Part) -> Message:
    return Message(role, parts)


def _taken(items: list[InboxItem]) -> None:
    """Take events one after the other."""

    class Inboxes:
        async def inbox(self, run_id: str, after: int = 0) -> list[InboxItem]:
            return [] if after else items

        async def put_item(self, run_id: str, key: str, data: bytes) -> bool:
            raise NotImplementedError

    async def work() -> None:
        inbox = Inbox(Inboxes(), "r", LocalJournal(), RunControl("r", Inboxes()).receive)
        for item in items:
            sent = next(await inbox.events("paid", "flow/event"))
            assert sent.number == item.number
            inbox.take(sent, "flow/event")

    asyncio.run(work())


INBOXES: dict[str, Make] = {
    "events": lambda size: [
        InboxItem(number, str(number), b'{"type":"event","name":"paid","value":1}') for number in range(1, size + 1)
    ]
}

CONVERSATIONS: dict[str, Make] = {
    "one role": lambda size: [user("x") for _ in range(size)],
    "system everywhere": lambda size: [one("system", Text("x")) for _ in range(size)],
    "one call answered again and again": lambda size: [
        user("q"), one("assistant", ToolCall("c", "f")), *[one("tool", ToolResult("c", "f")) for _ in range(size)]
    ],
    "unknown results": lambda size: [
        one("assistant", ToolCall("c", "f")), *[one("tool", ToolResult(f"d{number}", "f")) for number in range(size)]
    ],
    "results in one message": lambda size: [
        one("assistant", *[ToolCall(f"c{number}", "f") for number in range(size)]),
        one("tool", *[ToolResult(f"c{number}", "f") for number in range(size)]),
    ],
    "results in reverse": lambda size: [
        one("assistant", *[ToolCall(f"c{number}", "f") for number in range(size)]),
        *[one("tool", ToolResult(f"c{number}", "f")) for number in reversed(range(size))],
    ],
    "calls without results": lambda size: [one("assistant", ToolCall(f"c{number}", "f")) for number in range(size)],
    "equal calls in one message": lambda size: [one("assistant", *[ToolCall("c", "f") for _ in range(size)])],
    "one thought everywhere": lambda size: [one("assistant", Thinking("t", "s", id="rs_1")) for _ in range(size)],
    "other thoughts before one text": lambda size: [
        one("assistant", Thinking(f"t{number}", "s"), Text("x")) for number in range(size)
    ],
    "tool messages only": lambda size: [one("tool", ToolResult("c", "f")) for _ in range(size)],
}  # fmt: skip
"""Conversations that a person might give."""

DELTAS: dict[str, Make] = {
    "letters": lambda size: [TextDelta("x") for _ in range(size)],
    "thoughts": lambda size: [ThinkingDelta("x") for _ in range(size)],
    "thoughts with a late id": lambda size: [
        *[ThinkingDelta("x") for _ in range(size // 2)], *[ThinkingDelta("x", id="rs_1") for _ in range(size // 2)]
    ],
    "thoughts with ids": lambda size: [ThinkingDelta("x", id=f"rs_{number}") for number in range(size)],
    "signatures": lambda size: [ThinkingDelta("", "s") for _ in range(size)],
    "texts and thoughts": lambda size: [TextDelta("x") if number % 2 else ThinkingDelta("y") for number in range(size)],
    "arguments": lambda size: [ToolCallDelta(0, "1", "c", "f") for _ in range(size)],
    "calls": lambda size: [ToolCallDelta(number, "{}", "c", "f") for number in range(size)],
    "calls in turn": lambda size: [ToolCallDelta(number % 100, "1") for number in range(size)],
    "pictures": lambda size: [WholePart(Image(url="x")) for _ in range(size)],
}  # fmt: skip
"""Pieces of a reply."""


def fold(deltas: Sequence[PartDelta]) -> Message:
    folded = Fold()
    for delta in deltas:
        folded.push(delta)
    return folded.message()


def append(messages: Sequence[Message]) -> None:
    conversation = Conversation()
    for message in messages:
        conversation.append(message)


def rewritten(messages: Sequence[Message]) -> object:
    changed = [Message(each.role, tuple(part for part in each.parts if not isinstance(part, Thinking)))
               for each in messages]  # fmt: skip
    return validate_rewrite(messages, changed)


def shuffled(messages: Sequence[Message]) -> object:
    return validate_rewrite(messages, list(reversed(messages)))


def steps(messages: Sequence[Message]) -> None:
    """Ask for digest, size and encoding after each message, as the loop does."""
    conversation = Conversation()
    for message in messages:
        conversation.log.append(message)
        view = conversation.view()
        view.fingerprint()
        view.size()
        view.fragments("wire", encode)


SENDABLE = ValidationPolicy.sendable()

CASES = [
    *over("messages.arguments.canonical", canonical_arguments, JSON),
    *over("agents.partial.partial", partial_json, JSON),
    *over("messages.message.ToolCall.parsed", lambda text: ToolCall("c", "f", text).parsed(), JSON),
    *decoding("messages.message.ToolCall.canonical", lambda text: ToolCall("c", "f", text).canonical()),
    *decoding("messages.message.ToolCall.fingerprint", lambda text: ToolCall("c", "f", text).fingerprint()),
    *over("messages.message.ToolResult.value", lambda text: ToolResult("c", "f", text).value(), JSON),
    *over("messages.arguments.check_size", check_size, JSON[:2]),
    *over("messages.arguments.check_depth", check_depth, (*JSON, *TEXT)),
    *given("messages.arguments.unique_object", unique_object, {
        "one key": lambda size: [("k", 1)] * size,
        "the last key again": lambda size: [*((f"k{number}", 1) for number in range(size)), (f"k{size - 1}", 1)],
    }),
    *over("messages.usage.estimate_tokens", estimate_tokens, TEXT),
    *given("messages.message.fit", fit, MESSAGES),
    *given("messages.message.refolded", refolded, MESSAGES),
    *given("messages.message.deltas_of", lambda message: list(deltas_of(message)), MESSAGES),
    *given("messages.message.Fold", fold, DELTAS, reach=32_000),
    *given("messages.message.without_repeats", without_repeats, CONVERSATIONS),
    *given("messages.validation.validate", validate, CONVERSATIONS),
    *given("messages.validation.validate_all", validate_all, CONVERSATIONS),
    *given("messages.validation.validate_all", partial(validate_all, policy=SENDABLE), CONVERSATIONS),
    *given("messages.validation.validate_rewrite", rewritten, CONVERSATIONS),
    *given("messages.validation.validate_rewrite", shuffled, CONVERSATIONS),
    *given("messages.conversation.Conversation.append", append, CONVERSATIONS),
    *given("messages.conversation.Transcript", steps, CONVERSATIONS),
    *given("messages.conversation.Transcript", lambda message: Transcript.of(message).fingerprint(), MESSAGES),
    *given("messages.recorded.shown", shown, MESSAGES),
    *given("messages.items.messages_to_items", messages_to_items, CONVERSATIONS),
    *given(
        "messages.items.items_to_messages",
        lambda messages: items_to_messages(messages_to_items(messages)),
        CONVERSATIONS,
    ),
    *given("calls.inbox.Inbox.events", _taken, INBOXES),
    *over("core.visible.visible", visible, TEXT),
    *over("core.visible.visible_line", visible_line, TEXT),
    *over("core.visible.escaped_json", lambda text: escaped_json(text, strict=True), JSON),
    *over("core.errors.text_of", lambda text: text_of(ValueError(text)), TEXT),
    *over("core.codec.decode", lambda text: decode(text, dict[str, object]), JSON),
    *over("core.codec.decode", lambda text: decode(text, Message), JSON),
    *values("core.codec.encode", encode),
    *values("core.codec.canonical", canonical),
    *values("core.codec.digest", digest),
    *over("messages.posted.read_posted", _posted, JSON),
    *over("core.json_lines.read_entry", lambda text: read_entry(text.encode("utf-8", "replace")), JSON),
    *over("core.json_lines.as_error", lambda text: as_error(Raw(text.encode("utf-8", "replace"))), JSON),
    *given("core.event.difference", lambda texts: difference(*texts), {
        "other lines": lambda size: ("\n".join(f"a{n}" for n in range(size)), "\n".join(f"b{n}" for n in range(size))),
        "lines in reverse": lambda size: (
            "\n".join(f"a{n}" for n in range(size)), "\n".join(f"a{n}" for n in reversed(range(size)))
        ),
        "few lines again and again": lambda size: (
            "\n".join(f"a{n % 150}" for n in range(size)), "\n".join(f"a{n % 149}" for n in range(size))
        ),
        "every second line": lambda size: (
            "\n".join(f"a{n}" for n in range(size)), "\n".join(f"a{n}" for n in range(0, size, 2))
        ),
    }),
    *over("stores.session_log.read_session_entry", lambda text: read_session_entry(text.encode("utf-8", "replace")),
          JSON),
    *given("stores.session_log.whole", whole, CONVERSATIONS),
    *given("stores.session_log.latest", lambda messages: latest(messages, len(messages) // 2), CONVERSATIONS),
    *given(
        "stores.session_log.latest_from_question",
        lambda messages: latest_from_question(messages, len(messages) // 2),
        CONVERSATIONS,
    ),
    *[Case("agents.partial.partial", f"{each} growing", pieces(each), lambda letters: [
        partial_json("".join(letters[:end])) for end in range(0, len(letters), max(1, len(letters) // 8))
    ]) for each in JSON[:3]],
]  # fmt: skip
