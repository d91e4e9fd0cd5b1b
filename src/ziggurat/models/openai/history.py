"""Messages as dictionaries, in the form of Chat Completions."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest
from ziggurat.models.http.dialect import dialect_of
from ziggurat.models.openai.to_wire import encode_conversation


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages as dictionaries, as OpenAI's Chat Completions and servers like it have them.

    `from_openai` is the way back. Thoughts have no place in them, nor has whether a tool failed.
    """
    dialect = replace(dialect_of("openai"), system_role="system")  # which other servers know, too
    fragments = filter(None, encode_conversation(ModelRequest(Transcript.of(*messages)), dialect))
    return msgspec.json.decode(b"[%b]" % b",".join(fragments), type=list[dict[str, Any]])
