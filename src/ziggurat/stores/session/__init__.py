"""Sessions: conversations that continue over many runs."""

__all__ = ["Conflict", "Session", "SessionLease"]

from ziggurat.stores.session.session import Conflict, Session, SessionLease
