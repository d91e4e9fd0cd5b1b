"""Departures of dialects that concern this wire format only."""

__all__ = ["DOCUMENT_FIELDS", "SIGNING", "THOUGHT_FIELDS"]

THOUGHT_FIELDS: dict[str, str] = {"mistral": "content"}
"""Where thoughts are handed back, for those that take them in another place than a field of the message."""

DOCUMENT_FIELDS: dict[str, str] = {"mistral": "document_url"}
"""The kind of part that holds the address of a document, for those that have one; elsewhere it is a ``file``."""

SIGNING = frozenset({"gemini"})
"""Those that sign tool calls, and want the signature back in the call."""
