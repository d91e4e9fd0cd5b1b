"""Quirks of the reply itself: tool calls, their names, ids and arguments, and the amount of output."""

from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import zip_longest

from msgspec.structs import replace

from tests.provider.catalogue import quirk_maker
from tests.provider.frames import Frames, objects_of
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import PartDelta, TextDelta, ToolCall, ToolCallDelta
from ziggurat.testing.server.loopback import ReceivedRequest, Wait
from ziggurat.testing.server.quirk import Quirk
from ziggurat.testing.server.replies import ReplyContent, message_of, torn
from ziggurat.wires.types import Json, ResponseChunk

BAD_ARGUMENTS: Mapping[str, str | Callable[[str], str]] = {
    "truncated": lambda text: text[: max(1, len(text) // 2)],
    "unclosed": lambda text: text.rstrip("}"),
    "trailing": lambda text: text + "}",
    "fenced": lambda text: f"```json\n{text}\n```",
    "text": "I would like to call this tool.",
    "empty": "",
    "array": "[1, 2]",
    "number": "42",
    "null": "null",
    "quoted": lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"',
    "single_quotes": lambda text: text.replace('"', "'"),
    "nan": lambda text: _with(text, '"not_a_number":NaN,"too_large":1e999'),
    "duplicate_keys": lambda text: _with(text, '"twice":1,"twice":2'),
    "extra_keys": lambda text: _with(text, '"nobody_asked":true'),
    "wrong_types": '{"a":[{}],"b":{"c":[]},"text":[1],"city":7}',
    "surrogate": lambda text: _with(text, '"half":"\\ud800"'),
    "zero_byte": lambda text: _with(text, '"zero":"\\u0000"'),
    "comment": lambda text: text + " // done",
}
"""The forms of `bad_arguments`: a text, or a function of the arguments in the script."""


def _with(text: str, members: str) -> str:
    """Add members to a JSON object in text form."""
    inner = text.strip()[1:-1].strip()
    return "{" + (inner + "," if inner else "") + members + "}"


def _on_calls(change: Callable[[ToolCall, int], ToolCall]) -> Quirk:
    """Return a quirk that changes each tool call, given the call and its position."""

    def change_reply(reply: ReplyContent, seen: ReceivedRequest) -> ReplyContent:
        indexes = _calls_of(reply.pieces)
        calls = message_of(reply.pieces).tool_calls
        changed = {index: change(call, at) for at, (index, call) in enumerate(zip(indexes, calls, strict=True))}
        pieces: list[PartDelta | Wait] = []
        for piece in reply.pieces:
            if not isinstance(piece, ToolCallDelta):
                pieces.append(piece)
            elif piece.index in changed:
                call = changed.pop(piece.index)
                pieces.append(ToolCallDelta(piece.index, call.arguments, call.id, call.name))
        return replace(reply, pieces=tuple(torn(pieces)))

    return Quirk(reply=change_reply)


def _calls_of(pieces: Iterable[PartDelta | Wait]) -> list[int]:
    """Return the indexes of the tool calls, in order."""
    return list(dict.fromkeys(piece.index for piece in pieces if isinstance(piece, ToolCallDelta)))


@quirk_maker("call")
def bad_arguments(form: str = "truncated") -> Quirk:
    """Sends bad arguments in this form with every tool call: not a JSON object, or not valid for the tool.

    Good client: returns the error to the model as the result of the call, and runs nothing.
    """
    if form not in BAD_ARGUMENTS:
        raise ConfigurationError(f"there is no form {form!r} of bad arguments; there are {', '.join(BAD_ARGUMENTS)}")
    replacement = BAD_ARGUMENTS[form]
    return _on_calls(
        lambda call, _: replace(
            call, arguments=replacement if isinstance(replacement, str) else replacement(call.arguments)
        )
    )


@quirk_maker("call")
def huge_arguments(megabytes: float = 10) -> Quirk:
    """Sends arguments of this size in every tool call, by an additional long text member.

    Good client: refuses them or passes them on, without a crash or many copies.
    """
    member = '"filler":"' + "x" * int(megabytes * 1_000_000) + '"'
    return _on_calls(lambda call, _: replace(call, arguments=_with(call.arguments, member)))


@quirk_maker("call")
def deep_arguments(depth: int = 100_000) -> Quirk:
    """Sends arguments nested this deep in every tool call, by an additional member of nested lists.

    Good client: refuses them as bad arguments; nothing overflows.
    """
    member = '"deep":' + "[" * depth + "]" * depth
    return _on_calls(lambda call, _: replace(call, arguments=_with(call.arguments, member)))


@quirk_maker("call")
def unknown_tool(name: str = "no_such_tool") -> Quirk:
    """Names a tool that does not exist in every tool call.

    Good client: returns the list of existing tools to the model as the result of the call.
    """
    return _on_calls(lambda call, _: replace(call, name=name))


@quirk_maker("call")
def empty_name() -> Quirk:
    """Sends an empty name in every tool call.

    Good client: treats it as a tool that does not exist; the history it sends back is still accepted.
    """
    return unknown_tool("")


@quirk_maker("several calls")
def same_ids(id: str = "call_same") -> Quirk:  # noqa: A002
    """Sends the same id in all tool calls of all replies.

    Good client: generates its own ids, and returns the right result for each call.
    """
    return _on_calls(lambda call, _: replace(call, id=id))


@quirk_maker("several calls")
def reused_ids() -> Quirk:
    """Numbers ids from ``call_1`` in every reply, so later turns reuse those of earlier ones.

    Good client: matches the result of this turn, not of an earlier one.
    """
    return _on_calls(lambda call, at: replace(call, id=f"call_{at + 1}"))


@quirk_maker("several calls")
def many_calls(count: int = 10_000) -> Quirk:
    """Repeats the first tool call of a reply this many times, each with its own id.

    Good client: limits how many run at once; returns all results in order, or refuses with a clear error.
    """

    def change(reply: ReplyContent, seen: ReceivedRequest) -> ReplyContent:
        calls = message_of(reply.pieces).tool_calls[:1]
        copies = tuple(
            ToolCallDelta(at, call.arguments, f"{call.id}_{at}", call.name) for call in calls for at in range(count)
        )
        return replace(reply, pieces=copies or reply.pieces)

    return Quirk(reply=change)


@quirk_maker("body")
def big_text(megabytes: float = 10) -> Quirk:
    """Sends a reply of this size: text is appended.

    Good client: accepts it within its limits, or raises an error that names the limit.
    """
    piece = TextDelta("lorem ipsum " * 1000)
    times = max(1, int(megabytes * 1_000_000) // len(piece.text))
    return Quirk(reply=lambda reply, _: replace(reply, pieces=reply.pieces + (piece,) * times))


@quirk_maker("body")
def empty_reply() -> Quirk:
    """Sends a complete reply without content.

    Good client: returns an empty message, with which later requests still work.
    """
    return Quirk(reply=lambda reply, _: replace(reply, pieces=(), finish="stop"))


@quirk_maker("call")
def out_of_tokens() -> Quirk:
    """Ends the reply at the token limit, in the middle of the last call's arguments or of the text.

    Good client: runs no call with truncated arguments, even if they happen to be valid JSON.
    """

    def change(reply: ReplyContent, seen: ReceivedRequest) -> ReplyContent:
        calls = _calls_of(reply.pieces)
        if not calls:
            return replace(reply, pieces=reply.pieces[: max(1, len(reply.pieces) // 2)], finish="length")
        whole = message_of(reply.pieces).tool_calls[-1]
        rest = [piece for piece in reply.pieces if not isinstance(piece, ToolCallDelta) or piece.index != calls[-1]]
        half = whole.arguments[: max(1, len(whole.arguments) // 2)]
        last = ToolCallDelta(calls[-1], half, whole.id, whole.name)
        return replace(reply, pieces=(*rest, last), finish="length")

    return Quirk(reply=change)


@quirk_maker("stream")
def interleaved() -> Quirk:
    """Interleaves the pieces of several tool calls.

    Good client: assigns each piece to its call.
    """

    def change(frames: Frames, seen: ReceivedRequest) -> Frames:
        calls: dict[int, list[ResponseChunk]] = {}
        for frame, data in objects_of(frames):
            if (call := _call_of(data, calls)) is not None:
                calls.setdefault(call, []).append(frame)
        mixed = [frame for each in zip_longest(*calls.values()) for frame in each if frame is not None]
        first = next((at for at, frame in enumerate(frames) if mixed and frame is mixed[0]), len(frames))
        rest = [frame for frame in frames[first:] if not any(frame is each for each in mixed)]
        result = [*frames[:first], *mixed, *rest]
        for number, data in enumerate(data for _, data in objects_of(result) if "sequence_number" in data):
            data["sequence_number"] = number
        return result

    return Quirk(frames=change)


def _call_of(data: Json, known: Collection[int]) -> int | None:
    """Return the number of the tool call that an event is about, in any format."""
    for choice in data.get("choices", ()):
        for call in choice.get("delta", {}).get("tool_calls", ()):
            return int(call["index"])
    number: int | None = data.get("output_index", data.get("index"))
    item = data.get("item") or data.get("content_block") or {}
    return number if number in known or item.get("type") in ("function_call", "tool_use") else None


@quirk_maker("stream")
def whole_calls() -> Quirk:
    """Sends every tool call of a stream in a single piece.

    Good client: works as usual.
    """

    def change(reply: ReplyContent, seen: ReceivedRequest) -> ReplyContent:
        calls = message_of(reply.pieces).tool_calls
        others = tuple(piece for piece in reply.pieces if not isinstance(piece, ToolCallDelta))
        whole = tuple(ToolCallDelta(at, call.arguments, call.id, call.name) for at, call in enumerate(calls))
        return replace(reply, pieces=others + whole)

    return Quirk(reply=change)
