"""Convert token usage as the dialects report it into one comparable form.

One rule for every provider: `input` includes cached tokens, `output` includes reasoning, and their sum is the total
that the provider states. If that changes a provider's own figures, they are kept in the response's `raw["usage"]`.
"""

from typing import Any

import msgspec

from ziggurat.messages.usage import Usage
from ziggurat.models.openai.shapes import Count, Details, UsageShape

_NONE = Details()


def usage_of(shape: UsageShape | None) -> tuple[Usage, dict[str, Any] | None]:
    """Return the usage of one call, and the provider's own figures if they had to be changed."""
    if shape is None:
        return Usage(requests=1), None
    read = shape.prompt_tokens_details or _NONE
    written = shape.completion_tokens_details or _NONE
    count, output = _count(shape.prompt_tokens), _count(shape.completion_tokens)
    cached, reasoning = _count(read.cached_tokens), _count(written.reasoning_tokens)
    usage = Usage(
        count,
        output,
        cached if cached is not None else _cached_elsewhere(shape),
        _count(read.cache_write_tokens if read.cache_write_tokens is not None else shape.cache_creation_input_tokens),
        reasoning if reasoning is not None else _count(shape.reasoning_tokens),
        1,
    )
    missing = _missing(shape)
    if missing:
        usage = _completed(usage, missing, read.audio_tokens)
    if not missing and usage.cache_read == cached and usage.reasoning == reasoning:
        return usage, None
    own = {"input": count, "output": output, "cached": cached, "reasoning": reasoning}
    return usage, {name: value for name, value in own.items() if value is not None}


def _count(number: Count) -> int | None:
    return None if number is None or number < 0 else int(number)


def _cached_elsewhere(shape: UsageShape) -> int | None:
    for number in (
        shape.prompt_cache_hit_tokens,
        shape.num_cached_tokens,
        shape.cached_tokens,
        shape.cache_read_input_tokens,
    ):
        if number is not None:
            return _count(number)
    return None


def _missing(shape: UsageShape) -> int:
    """Return how many tokens of the total are in neither the prompt nor the completion count."""
    read, written, total = _count(shape.prompt_tokens), _count(shape.completion_tokens), _count(shape.total_tokens)
    return 0 if read is None or written is None or total is None else max(0, total - read - written)


def _completed(usage: Usage, missing: int, audio: Count) -> Usage:
    """Add tokens that only the total includes: to the input if they are audio, otherwise to the output as reasoning."""
    if missing == audio:
        return msgspec.structs.replace(usage, input=(usage.input or 0) + missing)
    return msgspec.structs.replace(usage, output=(usage.output or 0) + missing)


def merge_usage(known: UsageShape | None, latest: UsageShape) -> UsageShape:
    """Return the latest usage in a stream: newer figures replace older ones, and are not added up."""
    if known is None or (latest.prompt_tokens is not None and latest.completion_tokens is not None):
        return latest
    names = UsageShape.__struct_fields__
    return UsageShape(*[b if (b := getattr(latest, name)) is not None else getattr(known, name) for name in names])
