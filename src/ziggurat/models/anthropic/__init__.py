"""Anthropic's Messages API: requests to JSON, replies from JSON."""

from ziggurat.models.anthropic.from_wire import Reader, from_wire
from ziggurat.models.anthropic.to_wire import CACHE, ModelCapabilities, capabilities, to_wire

__all__ = ["CACHE", "ModelCapabilities", "Reader", "capabilities", "from_wire", "to_wire"]
