"""Middleware that is built in."""

from ziggurat.middleware.redaction import Redaction

__all__ = ["Redaction"]
