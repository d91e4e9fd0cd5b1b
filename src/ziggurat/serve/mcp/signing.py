"""Ids that travel through clients: signed, so that nobody can make or change one."""

import hmac

from ziggurat.core.codec import encode
from ziggurat.core.jsonrpc import INVALID_PARAMS, JsonRpcError


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
        """Return a text that was signed."""
        text, _, mac = signed.rpartition(".")
        if not hmac.compare_digest(mac.encode(), self._mac(purpose, text, bound).encode()):
            raise JsonRpcError(
                f"the {purpose} is unknown here: it was changed, or made for something else", INVALID_PARAMS
            )
        return text

    def _mac(self, purpose: str, text: str, bound: str) -> str:
        return hmac.new(self._key, encode([purpose, text, bound]), "sha256").hexdigest()[:40]
