"""What others than its driver send to a run: the contents of its inbox."""

__all__ = ["Posted", "PostedEvent", "read_posted"]

from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.core.errors import JournalCorrupt


class PostedEvent(Struct, frozen=True, tag="event", tag_field="type"):
    """An event that a flow waits for, or will wait for.

    Attributes:
        name: The name of the event.
        value: What it brings, as plain JSON data.
    """

    name: str
    value: Any = None


Posted = PostedEvent
"""The content of an item in the inbox of a run."""

_decoder: "msgspec.json.Decoder[Posted]" = msgspec.json.Decoder(Posted)


def read_posted(data: bytes) -> Posted:
    """Return the content of an item.

    Raises:
        JournalCorrupt: it is something else.
    """
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise JournalCorrupt(f"not an item that a run can take: {error}") from error
