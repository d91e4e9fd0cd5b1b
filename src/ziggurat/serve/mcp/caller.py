"""Caller: what one request says of its client, and how the client is told what happens meanwhile."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from ziggurat.core import codec
from ziggurat.core.codec import canonical, encode
from ziggurat.core.event import Event
from ziggurat.mcp.wire import LEGACY, MISSING_CAPABILITY, MODERN, TASKS
from ziggurat.messages.events import StepStarted, ToolDelta, ToolStarted, Warned
from ziggurat.wires.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Id, JsonRpcError, Message, Notification

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class Params(Struct, frozen=True, rename="camel"):
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
        return canonical([method, self.name, self.arguments]).decode()


class Caller(Struct, eq=False):
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
        if isinstance(event, Warned) and self.level and _LEVELS.index(self.level) <= _LEVELS.index("warning"):
            told = {"level": "warning", "logger": event.path, "data": event.text}
            self.send(Notification("notifications/message", told))
        text = _progress(event)
        if self.token is not None and text:
            self.progress += 1
            params = {"progressToken": self.token, "progress": self.progress, "message": text}
            self.send(Notification("notifications/progress", params))


def level_of(value: object) -> str:
    if value not in _LEVELS:
        raise invalid(f"a level is one of {', '.join(_LEVELS)}, got {value!r:.50}")
    return str(value)


def invalid(why: str, data: object = None) -> JsonRpcError:
    return JsonRpcError(why, INVALID_PARAMS, data)


def missing_capability(required: dict[str, Any], why: str) -> JsonRpcError:
    return JsonRpcError(why, MISSING_CAPABILITY, {"requiredCapabilities": required})


def _progress(event: Event) -> str:
    if isinstance(event, ToolDelta):
        return event.text[:1000]
    if isinstance(event, ToolStarted):
        return f"calls {event.call.name}"
    return f"step {event.step}" if isinstance(event, StepStarted) else ""


class Signer:
    """Signs texts for one purpose each, by a key made of the token, so that others who have that can read them."""

    def __init__(self, token: str) -> None:
        self._key = hmac.new(token.encode(), b"ids of MCP", "sha256").digest()

    def sign(self, purpose: str, text: str, bound: str = "") -> str:
        """Return a text with its signature, which is good for one purpose, and for what it is bound to."""
        return f"{text}.{self._mac(purpose, text, bound)}"

    def read(self, purpose: str, signed: str, bound: str = "") -> str:
        text, _, mac = signed.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(purpose, text, bound).encode()):
            raise invalid(f"the {purpose} is unknown here: it was changed, or made for something else")
        return text

    def _mac(self, purpose: str, text: str, bound: str) -> str:
        return hmac.new(self._key, encode([purpose, text, bound]), "sha256").hexdigest()[:40]


_REMEMBERED = 10_000  # sessions of which more is known than their id says


class NoSession(JsonRpcError):
    """A session that is unknown here, or has ended: the client is to connect again."""


class _Stated(Struct, frozen=True):
    version: str
    capabilities: dict[str, Any]
    nonce: str


class Session:
    """A session, and what this process knows of it besides: which is lost with the process."""

    def __init__(self, version: str, capabilities: dict[str, Any], name: str = "") -> None:
        self.version = version
        self.capabilities = capabilities
        self.name = name
        self.ended: bool = False
        self.level: str = "info"
        self.uris: set[str] = set()
        self.runs: dict[Id, str] = {}  # of calls in progress, by the ids of their requests

    def caller(self, send: Callable[[Message], None], params: Params) -> Caller:
        token = params.meta.get("progressToken")
        known = isinstance(token, str | int)
        return Caller(self.version, self.capabilities, send, token if known else None, self.level)


class Sessions:
    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._known: OrderedDict[str, Session] = OrderedDict()

    def create(self, params: Params) -> Session:
        version = params.protocol_version if params.protocol_version in LEGACY else LEGACY[0]
        client = Caller(version, params.capabilities, lambda _: None)
        abilities: dict[str, Any] = {name: {} for name in ("elicitation", "sampling", "roots") if client.can(name)}
        stated = encode(_Stated(version, abilities, secrets.token_hex(8)))
        return self.find(self._signer.sign("session", urlsafe_b64encode(stated).decode()))

    def find(self, name: str) -> Session:
        session = self._known.pop(name, None)
        if session is None:
            try:
                text = self._signer.read("session", name)
            except JsonRpcError as error:
                raise NoSession(error.message, INVALID_REQUEST) from error
            stated = codec.decoder(_Stated).decode(urlsafe_b64decode(text))
            session = Session(stated.version, stated.capabilities, name)
        self._known[name] = session
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        if session.ended:
            raise NoSession("the session has ended", INVALID_REQUEST)
        return session
