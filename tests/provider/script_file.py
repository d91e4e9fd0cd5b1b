"""Scripts for the fake provider as JSON, for clients that are not written in Python."""

from typing import Any, Union

import msgspec
from msgspec import Struct

from ziggurat.core.errors import ConfigurationError, ModelError, ModelErrorKind
from ziggurat.messages.message import Thinking, ToolCall, assistant
from ziggurat.messages.model import FinishReason, ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.models.scripted import ScriptedReply


class _Call(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    arguments: dict[str, Any] | str = msgspec.field(default_factory=dict)
    id: str = ""


class _Error(Struct, frozen=True, forbid_unknown_fields=True):
    message: str = "failed on purpose"
    kind: ModelErrorKind = "server"
    status: int | None = None
    retry_after: float | None = None


class _Reply(Struct, frozen=True, forbid_unknown_fields=True):
    text: str = ""
    thinking: str = ""
    signature: str | None = None
    tool_calls: tuple[_Call, ...] = ()
    usage: Usage = Usage(requests=1)
    finish: FinishReason | None = None
    error: _Error | None = None


class _Rule(Struct, frozen=True, forbid_unknown_fields=True):
    when: str
    reply: Union[str, _Reply]  # noqa: UP007 - as below


class _Script(Struct, frozen=True, forbid_unknown_fields=True):
    replies: tuple[str | _Reply, ...] = ()
    rules: tuple[_Rule, ...] = ()
    always: str | _Reply | None = None


class Script(Struct, frozen=True):
    """The script of a fake provider."""

    replies: tuple[ScriptedReply, ...]
    rules: tuple[tuple[str, ScriptedReply], ...] = ()
    always: ScriptedReply | None = None


def load_script(text: bytes | str) -> Script:
    """Parse a script: a list of replies, or an object with ``replies``, ``rules`` and ``always``."""
    try:
        read = msgspec.json.decode(text, type=tuple[str | _Reply, ...] | _Script)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise ConfigurationError(f"the script cannot be read: {error}") from error
    script = read if isinstance(read, _Script) else _Script(read)
    return Script(
        tuple(map(_reply, script.replies)),
        tuple((rule.when, _reply(rule.reply)) for rule in script.rules),
        None if script.always is None else _reply(script.always),
    )


def _reply(reply: str | _Reply) -> ScriptedReply:
    if isinstance(reply, str):
        return reply
    if reply.error is not None:
        error = reply.error
        return ModelError(error.message, kind=error.kind, status=error.status, retry_after=error.retry_after)
    thinking = [Thinking(reply.thinking, reply.signature)] if reply.thinking or reply.signature else []
    calls = [ToolCall(call.id or "call", call.name, _arguments(call)) for call in reply.tool_calls]
    message = assistant(*thinking, *([reply.text] if reply.text else []), *calls)
    finish = reply.finish or ("tool_calls" if calls else "stop")
    return ModelResponse(message, finish, reply.usage)


def _arguments(call: _Call) -> str:
    return call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
