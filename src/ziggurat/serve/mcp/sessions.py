"""Sessions of clients up to 2025-11-25. The id of one has all that its client said, so that it outlives the process."""

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from msgspec import Struct, json

from ziggurat.core.codec import encode
from ziggurat.core.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, Id, JsonRpcError, Message
from ziggurat.mcp.wire import LEGACY
from ziggurat.serve.mcp.caller import Caller, Params


class Signer:
    """Signs texts for one purpose each, by a key that is made of the token of a server.

    All processes with the same token, and a process after its restart, read what another one has signed.
    """

    def __init__(self, token: str) -> None:
        self._key = hmac.new(token.encode(), b"ids of MCP", "sha256").digest()

    def sign(self, purpose: str, text: str, bound: str = "") -> str:
        """Return a text with its signature, which is good for one purpose, and for what it is bound to."""
        return f"{text}.{self._mac(purpose, text, bound)}"

    def read(self, purpose: str, signed: str, bound: str = "") -> str:
        text, _, mac = signed.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(purpose, text, bound).encode()):
            raise JsonRpcError(
                f"the {purpose} is unknown here: it was changed, or made for something else", INVALID_PARAMS
            )
        return text

    def _mac(self, purpose: str, text: str, bound: str) -> str:
        return hmac.new(self._key, encode([purpose, text, bound]), "sha256").hexdigest()[:40]


_REMEMBERED = 10_000
"""Sessions of which more is known than their id says."""


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
        """Return a new session for a client, in the revision that it asks for if we speak it."""
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
            stated = json.decode(urlsafe_b64decode(text), type=_Stated)
            session = Session(stated.version, stated.capabilities, name)
        self._known[name] = session
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        if session.ended:
            raise NoSession("the session has ended", INVALID_REQUEST)
        return session
