"""Type checks for messages created in user code, because a Struct does not check the types of its fields."""

from typing import get_args

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Settings
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Audio, File, Image, Part, Text, ToolResult

_FIELDS: dict[type, Settings] = {
    kind: Settings({*kind.__struct_fields__} - {"content"}, kind)  # which may be a list, too
    for kind in get_args(Part)
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
    wrong = _problem_in_media(part) if isinstance(part, (Image, Audio, File)) else None
    if wrong is None and isinstance(part, ToolResult) and not isinstance(part.content, str):
        wrong = _problem_in_content(part.content)
    return _problem_in_fields(part) if wrong is None else wrong


def _problem_in_fields(part: Struct) -> str | None:
    kind = type(part)
    try:
        _FIELDS[kind].check(kind.__name__, [(name, getattr(part, name)) for name in kind.__struct_fields__])
    except ConfigurationError as error:
        return str(error)
    return None


def _problem_in_media(part: Image | Audio | File) -> str | None:
    name, data = type(part).__name__, part.data
    if data is not None and not isinstance(data, bytes):
        how = "Path(...).read_bytes(), or the address as url=..." if isinstance(data, str) else "bytes(...)"
        return f"{name}(data=...) takes bytes: give {how}; got {data!r:.80}"
    if data is None and not part.url and not (isinstance(part, File) and part.id):
        more = " or id=..." if isinstance(part, File) else ""
        return f"{name}() holds nothing: give data=b'...', url='https://...'{more}"
    if "/" not in str(part.media_type):
        return f"{name}(media_type=...) is a type such as 'image/png', got {part.media_type!r}"
    return None


def _problem_in_content(content: object) -> str | None:
    if not isinstance(content, (tuple, list)):
        return f"ToolResult(content=...) takes text or a tuple of parts; got {content!r:.200}"
    for each in content:
        if not isinstance(each, (Text, Image, Audio, File)):
            return f"ToolResult(content=...) takes Text, Image, Audio and File parts; got {each!r:.200}"
        wrong = problem_in_part(each)
        if wrong is not None:
            return wrong
    return None
