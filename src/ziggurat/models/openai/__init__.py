"""OpenAI's Chat Completions and everything that speaks like it: a pure mapping, both ways."""

__all__ = ["Reader", "from_wire", "to_wire"]

from ziggurat.models.openai.from_wire import from_wire
from ziggurat.models.openai.stream import Reader
from ziggurat.models.openai.to_wire import to_wire
