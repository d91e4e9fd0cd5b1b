"""The weight of model calls in tokens, for the functions that a rate limit takes."""

from ziggurat.messages.budget import ASSUMED_OUTPUT
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import Usage, estimate_tokens


def expected_tokens(request: ModelRequest) -> int:
    """Estimate the maximum tokens of a request and its reply: the request's length plus the longest reply allowed."""
    instructions = estimate_tokens(request.instructions or "")
    return request.messages.size() // 4 + instructions + (request.settings.max_tokens or ASSUMED_OUTPUT)


def used_tokens(outcome: object) -> int | None:
    """Return the tokens used by a response or a failed call; None if unknown."""
    usage = getattr(outcome, "usage", None)
    if not isinstance(usage, Usage) or (usage.input is None and usage.output is None):
        return None
    return usage.total
