"""Messages as dictionaries, in the form of Chat Completions."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest
from ziggurat.models.http.dialect import dialect_of
from ziggurat.models.openai.to_wire import encode_conversation


def to_openai(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return messages as dictionaries, as OpenAI's Chat Completions and servers like it have them.

    `from_openai` is the way back. Thoughts have no place in them, nor has whether a tool failed.

    Raises:
        InvalidArguments: it is no list of messages.
    """
    if isinstance(messages, AgentRun):
        raise InvalidArguments("to_openai takes messages; got a run: pass run.messages")
    listed = tuple(messages) if isinstance(messages, Iterable) else (messages,)
    if not all(isinstance(each, Message) for each in listed):
        raise InvalidArguments(f"to_openai takes a list of messages; got {messages!r:.200}")
    dialect = replace(dialect_of("openai"), system_role="system")  # which other servers know, too
    fragments = filter(None, encode_conversation(ModelRequest(Transcript.of(*listed)), dialect))
    return msgspec.json.decode(b"[%b]" % b",".join(fragments), type=list[dict[str, Any]])
