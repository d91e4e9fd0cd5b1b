"""The weight of model calls in tokens, for rate limits."""

__all__ = ["expected_tokens", "used_tokens"]

from ziggurat.messages.budget import ASSUMED_OUTPUT
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import Usage, estimate_tokens


def expected_tokens(request: ModelRequest) -> int:
    """Guess what a question and its reply will cost at most: its length, and the longest reply it allows."""
    instructions = estimate_tokens(request.instructions or "")
    return request.messages.size() // 4 + instructions + (request.settings.max_tokens or ASSUMED_OUTPUT)


def used_tokens(outcome: object) -> int | None:
    """Return what a response has cost, or the error that came instead; None where nobody has said."""
    usage = getattr(outcome, "usage", None)
    if not isinstance(usage, Usage) or (usage.input is None and usage.output is None):
        return None
    return usage.total
