"""Differences between dialects that concern only this wire format."""

THOUGHT_FIELDS: dict[str, str] = {"mistral": "content"}
"""Where providers accept thoughts, if not in a field of their own in the message."""

DOCUMENT_FIELDS: dict[str, str] = {"mistral": "document_url"}
"""The type of part for a document's URL, if the provider has one; otherwise it is a ``file``."""

SIGNING = frozenset({"gemini"})
"""The providers that sign tool calls, and need the signature back in the call."""
