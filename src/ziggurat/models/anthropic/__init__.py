"""Anthropic's Messages API: requests to JSON, replies from JSON."""

from ziggurat.models.anthropic.abilities import Abilities, abilities
from ziggurat.models.anthropic.from_wire import from_wire
from ziggurat.models.anthropic.stream import Reader
from ziggurat.models.anthropic.to_wire import CACHE, to_wire

__all__ = ["CACHE", "Abilities", "Reader", "abilities", "from_wire", "to_wire"]
