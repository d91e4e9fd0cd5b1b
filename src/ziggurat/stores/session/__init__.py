"""Sessions: conversations that continue over many runs."""

__all__ = ["Conflict", "Hold", "Session"]

from ziggurat.stores.session.session import Conflict, Hold, Session
