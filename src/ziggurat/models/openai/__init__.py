"""OpenAI's Chat Completions API and its dialects: requests to JSON, replies from JSON; no I/O."""

__all__ = ["Reader", "from_wire", "to_wire"]

from ziggurat.models.openai.from_wire import Reader, from_wire
from ziggurat.models.openai.to_wire import to_wire
