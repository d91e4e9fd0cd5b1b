"""Quirks of the fields: what the JSON of a reply contains, and which events a stream consists of."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from tests.provider.catalogue import quirk_maker
from tests.provider.frames import TOKENS, Frames, each_object, every_object, objects_of
from ziggurat.core.errors import ConfigurationError
from ziggurat.testing.server.loopback import ReceivedRequest, Wait
from ziggurat.testing.server.quirk import Quirk
from ziggurat.wires.types import Json, ResponseChunk
from ziggurat.wires.writer import raw_input


def _choices(data: Json) -> Iterator[Json]:
    choices = data.get("choices")
    if isinstance(choices, list):
        yield from choices


def _functions(data: Json) -> Iterator[tuple[Json, Json]]:
    """Yield every tool call of a Chat Completions body or chunk, with its function."""
    for choice in _choices(data):
        for call in (choice.get("delta") or choice.get("message") or {}).get("tool_calls") or ():
            yield call, call["function"]


def _key_of(call: Json) -> str | None:
    """Return the name of the field with the id, if this is a tool call."""
    kind = call.get("type")
    if kind == "function_call":
        return "call_id"
    return "id" if kind == "tool_use" or isinstance(call.get("function"), dict) else None


# -- Chat Completions and compatible APIs ----------------------------------------------------------------------------


def _extra_chunks(value: object) -> Callable[[Frames, ReceivedRequest], Frames]:
    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        key = {"chat": "choices", "responses": "output", "messages": "content"}[seen.wire or "chat"]
        if not seen.stream:
            for _, data in objects_of(frames):
                data[key] = value
            return frames
        if seen.wire != "chat":
            return frames
        extended: Frames = []
        for frame in frames:
            extended.append(frame)
            if isinstance(frame, ResponseChunk) and isinstance(frame.data, dict) and frame.part in ("start", "delta"):
                extended.append(replace(frame, data={**frame.data, key: value}))
        return extended

    return frames


@quirk_maker("body")
def choices_null() -> Quirk:
    """Sends null ``choices``: in a plain reply (also output and content), and in a chunk after every chunk.

    Good client: raises a typed error or returns an empty message for the plain reply; skips the chunks.
    """
    return Quirk(frames=_extra_chunks(None))


@quirk_maker("body")
def choices_empty() -> Quirk:
    """Sends empty ``choices``: in a plain reply (also output and content), and in a chunk after every chunk.

    Good client: raises a typed error or returns an empty message for the plain reply; skips the chunks.
    """
    return Quirk(frames=_extra_chunks([]))


@quirk_maker("stream")
def no_index() -> Quirk:
    """Omits the index in deltas of tool calls (Chat Completions).

    Good client: distinguishes the calls by their ids, and by new names.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for call, _ in _functions(data):
            call.pop("index", None)

    return each_object(change)


@quirk_maker("several calls")
def no_ids(form: str = "missing") -> Quirk:
    """Sends tool calls without an id: it is missing, null or empty.

    Good client: generates its own ids.
    """
    if form not in ("missing", "null", "empty"):
        raise ConfigurationError(f"there is no form {form!r} of no_ids; there are missing, null, empty")

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            key = _key_of(part)
            if key is not None and form == "missing":
                part.pop(key, None)
            elif key is not None and key in part:
                part[key] = None if form == "null" else ""

    return each_object(change)


def _repeat(name: bool) -> Quirk:
    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        first_seen: dict[int, tuple[str, str]] = {}
        for _, data in objects_of(frames) if seen.stream else ():
            for call, function in _functions(data):
                call_id, function_name = first_seen.setdefault(
                    call["index"], (call.get("id", ""), function.get("name", ""))
                )
                if name:
                    function["name"] = function_name
                else:
                    call["id"] = call_id
        return frames

    return Quirk(frames=frames)


@quirk_maker("stream")
def repeated_names() -> Quirk:
    """Repeats the tool's whole name in every delta of a call (Chat Completions).

    Good client: does not join them: ``add``, not ``addadd``.
    """
    return _repeat(name=True)


@quirk_maker("stream")
def repeated_ids() -> Quirk:
    """Repeats the id in every delta of a tool call (Chat Completions).

    Good client: treats them as one call.
    """
    return _repeat(name=False)


@quirk_maker("stream")
def content_parts() -> Quirk:
    """Sends content as a list of parts instead of a text (Chat Completions).

    Good client: joins their texts.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for choice in _choices(data):
            message = choice.get("delta") or choice.get("message") or {}
            if isinstance(message.get("content"), str):
                message["content"] = [{"type": "text", "text": message["content"]}]

    return each_object(change)


@quirk_maker("call")
def object_arguments() -> Quirk:
    """Sends arguments as a JSON object instead of a text; in a stream, only where they come in one piece.

    Good client: accepts them as arguments.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            arguments = part.get("arguments")
            if isinstance(arguments, str) and arguments.startswith("{") and arguments.endswith("}"):
                part["arguments"] = raw_input(arguments)

    return each_object(change)


@quirk_maker("call")
def null_arguments() -> Quirk:
    """Sends null arguments, and none later.

    Good client: treats them as an empty object, or as bad arguments; no crash.
    """

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        for _, data in objects_of(frames):
            for part in every_object(data):
                part |= {key: None for key in ("arguments", "input") if key in part}
        return [frame for frame in frames if isinstance(frame, Wait) or not _is_argument(frame)]

    return Quirk(frames=frames)


def _is_argument(frame: ResponseChunk) -> bool:
    data = frame.data
    if not isinstance(data, dict):
        return False
    calls = list(_functions(data))
    more = [call for call, _ in calls if "type" not in call]
    inner = data.get("delta")
    of_input = isinstance(inner, dict) and inner.get("type") == "input_json_delta"
    return bool(more) or of_input or data.get("type") == "response.function_call_arguments.delta"


# -- undocumented fields and types -----------------------------------------------------------------------------------


@quirk_maker("body")
def unknown_fields() -> Quirk:
    """Adds an unknown field to every JSON object.

    Good client: works as usual.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in list(every_object(data)):
            part["x_unknown"] = {"since": 2031, "list": [None]}

    return each_object(change)


@quirk_maker("body")
def unknown_events() -> Quirk:
    """Sends an event of an unknown type after every event of a stream.

    Good client: ignores them.
    """

    def frames(frames: Frames, seen: ReceivedRequest) -> Frames:
        if not seen.stream:
            return frames
        extended: Frames = []
        for frame in frames:
            extended.append(frame)
            if isinstance(frame, ResponseChunk) and frame.part in ("start", "delta"):
                data: Json = {"type": "x_unknown", "x_unknown": True}
                if seen.wire == "chat":
                    data = {"object": "x_unknown", "choices": []}
                extended.append(ResponseChunk(data, "" if seen.wire == "chat" else "x_unknown"))
        return extended

    return Quirk(frames=frames)


@quirk_maker("body")
def wrong_types() -> Quirk:
    """Sends ids and texts as numbers, and token counts as texts.

    Good client: raises a typed error (malformed), or interprets it sensibly; no crash.
    """

    def change(data: Json, frame: ResponseChunk, seen: ReceivedRequest) -> None:
        for part in every_object(data):
            part |= {key: str(part[key]) for key in TOKENS if key in part}
            part |= {key: 7 for key in ("id", "text", "content", "name") if isinstance(part.get(key), str)}

    return each_object(change)
