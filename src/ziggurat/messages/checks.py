"""Type checks for messages created in user code, because a Struct does not check the types of its fields."""

__all__ = ["problem_in", "problem_in_part"]

from typing import get_args

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolErrorKind, ToolResult

_TEXTS: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Image: ("media_type",),
    Audio: ("media_type",),
    File: ("media_type",),
    Thinking: ("text",),
    ToolCall: ("id", "name", "arguments"),
    ToolResult: ("id", "name"),
}
_MAYBE: dict[type, tuple[str, ...]] = {
    Image: ("url", "detail"),
    Audio: ("url",),
    File: ("url", "id", "name"),
    Thinking: ("signature", "redacted", "id"),
    ToolResult: ("origin",),
}


def problem_in(message: Message) -> str | None:
    """Return what is wrong with the types of a message and its parts, and how to fix it; None if all are valid."""
    parts: object = message.parts
    if not isinstance(parts, (tuple, list)):
        return f"the parts of a message are a tuple of parts, got {parts!r:.200}; make messages with user('...')"
    for name in ("name", "origin"):
        value = getattr(message, name)
        if value is not None and not isinstance(value, str):
            return f"the {name} of a message is text, got {value!r:.200}"
    taint: object = message.taint
    if not isinstance(taint, (tuple, list)) or not all(isinstance(each, str) for each in taint):
        return f"the taint of a message is a tuple of tools' names, got {taint!r:.200}"
    for part in parts:
        wrong = problem_in_part(part)
        if wrong is not None:
            return wrong
    return None


def problem_in_part(part: object) -> str | None:
    """Return what is wrong with the types of a part, and how to fix it; None if all are valid."""
    kind = type(part)
    if kind is Text and isinstance(part.text, str):  # type: ignore[attr-defined]
        return None
    if not isinstance(part, Part):
        return f"a message is made of parts, got {part!r:.200}; write Text('...'), or make it with user('...')"
    for name in _TEXTS[kind]:
        value = getattr(part, name)
        if not isinstance(value, str):
            how = ", as JSON" if name == "arguments" else ""
            return f"{kind.__name__}({name}=...) takes text{how}; got {value!r:.200}"
    for name in _MAYBE.get(kind, ()):
        value = getattr(part, name)
        if value is not None and not isinstance(value, str):
            return f"{kind.__name__}({name}=...) takes text or None; got {value!r:.200}"
    if isinstance(part, (Image, Audio, File)):
        return _problem_in_media(part)
    return _problem_in_result(part) if isinstance(part, ToolResult) else None


def _problem_in_media(part: Image | Audio | File) -> str | None:
    name, data = type(part).__name__, part.data
    if data is not None and not isinstance(data, bytes):
        how = "Path(...).read_bytes(), or the address as url=..." if isinstance(data, str) else "bytes(...)"
        return f"{name}(data=...) takes bytes: give {how}; got {data!r:.80}"
    if data is None and not part.url and not (isinstance(part, File) and part.id):
        more = " or id=..." if isinstance(part, File) else ""
        return f"{name}() holds nothing: give data=b'...', url='https://...'{more}"
    if "/" not in part.media_type:
        return f"{name}(media_type=...) is a type such as 'image/png', got {part.media_type!r}"
    return None


def _problem_in_result(part: ToolResult) -> str | None:
    content: object = part.content
    if not isinstance(content, str):
        if not isinstance(content, (tuple, list)):
            return f"ToolResult(content=...) takes text or a tuple of parts; got {content!r:.200}"
        for each in content:
            if not isinstance(each, (Text, Image, Audio, File)):
                return f"ToolResult(content=...) takes Text, Image, Audio and File parts; got {each!r:.200}"
            wrong = problem_in_part(each)
            if wrong is not None:
                return wrong
    if part.error is not None and part.error not in get_args(ToolErrorKind):
        return f"ToolResult(error=...) is one of {', '.join(get_args(ToolErrorKind))}, or None; got {part.error!r:.200}"
    return None
