"""Anthropic's Messages API: requests to JSON, replies from JSON."""

from ziggurat.models.anthropic.from_wire import Reader, from_wire
from ziggurat.models.anthropic.to_wire import CACHE, to_wire
from ziggurat.models.anthropic.versions import ModelCapabilities, capabilities

__all__ = ["CACHE", "ModelCapabilities", "Reader", "capabilities", "from_wire", "to_wire"]
