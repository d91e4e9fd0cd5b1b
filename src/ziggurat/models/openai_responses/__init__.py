"""OpenAI's Responses API: requests to JSON, replies from JSON."""

from ziggurat.models.openai_responses.from_wire import Reader, from_wire
from ziggurat.models.openai_responses.to_wire import to_wire

__all__ = ["Reader", "from_wire", "to_wire"]
