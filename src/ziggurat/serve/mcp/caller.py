"""Caller: what one request says of its client, and how the client is told what happens meanwhile."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from ziggurat.core.codec import canonical
from ziggurat.core.event import Event
from ziggurat.core.jsonrpc import JsonRpcError, Message, Notification
from ziggurat.mcp.wire import MISSING_CAPABILITY, MODERN, TASKS
from ziggurat.messages.events import StepStarted, ToolDelta, ToolStarted, Warned

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Params(Struct, frozen=True, rename="camel"):
    """The parameters of all methods that are answered here."""

    meta: dict[str, Any] = field(name="_meta", default_factory=dict)
    name: str = ""
    uri: str = ""
    arguments: dict[str, Any] = {}
    cursor: str | None = None
    input_responses: dict[str, Any] | None = None
    request_state: str | None = None
    task_id: str = ""
    notifications: dict[str, Any] = {}
    ref: dict[str, Any] = {}
    argument: dict[str, Any] = {}
    level: str = ""
    request_id: Any = None
    protocol_version: str = ""
    capabilities: dict[str, Any] = {}

    def bound_to(self, method: str) -> str:
        """Return what a state of this request is bound to: the call that it belongs to."""
        return canonical([method, self.name, self.arguments]).decode()


class Caller(Struct, eq=False):
    """The client of one request."""

    version: str
    capabilities: dict[str, Any]
    send: Callable[[Message], None]
    token: str | int | None = None  # of its request in notifications of progress
    level: str = ""
    begun: Callable[[str], None] = lambda _: None  # called with the id of the run, before anything is sent
    progress: int = 0

    def can(self, capability: str) -> bool:
        if capability == "elicitation":
            forms = self.capabilities.get("elicitation")
            return isinstance(forms, dict) and (not forms or "form" in forms)
        return capability in self.capabilities

    @property
    def knows_tasks(self) -> bool:
        extensions = self.capabilities.get("extensions")
        return self.version == MODERN and isinstance(extensions, dict) and TASKS in extensions

    def hear(self, event: Event) -> None:
        """Tell the client of an event of its run, if it wants to learn of it."""
        if isinstance(event, Warned) and self.level and _LEVELS.index(self.level) <= _LEVELS.index("warning"):
            told = {"level": "warning", "logger": event.path, "data": event.text}
            self.send(Notification("notifications/message", told))
        text = _progress(event)
        if self.token is not None and text:
            self.progress += 1
            params = {"progressToken": self.token, "progress": self.progress, "message": text}
            self.send(Notification("notifications/progress", params))


def level_of(value: object) -> str:
    """Return a level; raises JsonRpcError if there is none of that name."""
    if value not in _LEVELS:
        raise JsonRpcError(f"a level is one of {', '.join(_LEVELS)}, got {value!r:.50}", -32602)
    return str(value)


def missing_capability(required: dict[str, Any], why: str) -> JsonRpcError:
    return JsonRpcError(why, MISSING_CAPABILITY, {"requiredCapabilities": required})


def _progress(event: Event) -> str:
    if isinstance(event, ToolDelta):
        return event.text[:1000]
    if isinstance(event, ToolStarted):
        return f"calls {event.call.name}"
    return f"step {event.step}" if isinstance(event, StepStarted) else ""
