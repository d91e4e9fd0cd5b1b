"""The texts with which providers and their SDKs say that a conversation is too long for a model."""

import re

from ziggurat.core.errors import ModelError, text_of

_LOOKED_AT = 65536  # characters of a text that are examined

_TOO_LONG = re.compile(
    r"context (?:length|window|size)|maximum context|exceed context|greater than the context|longer than the model"
    r"|(?:prompt|input|conversation|inputs?|messages) (?:is|are) too long|total length of all messages is too long"
    r"|(?:prompt|input|request)[^.]{0,60} exceeds? (?:the )?(?:model'?s? )?(?:maximum|max|limit|available|context)"
    r"|(?:maximum|max) (?:allowed )?(?:prompt|input) length|maximum number of (?:input )?tokens|input token count"
    r"|input tokens? (?:exceed|limit)|tokens? [<>]=? \d+ maximum|^request too large$|request too large for"
    r"|reduce the length of (?:the|your) (?:messages|prompt|input|conversation)|too large for model with \d+ maximum"
    r"|`inputs` tokens|range of input length|prompt contains at least \d+ input tokens|tokens in request more than max"
    r"|exceeded model token limit|number of tokens in the (?:prompt|input)|too many prompt tokens"
    r"|model max prompt tokens exceeded"
)


def is_too_long(text: str) -> bool:
    """Return whether a text or a code of a provider says that the conversation is too long, and not the reply."""
    words = text[:_LOOKED_AT].lower().replace("_", " ").replace("-", " ")
    return _TOO_LONG.search(words) is not None and "completion tokens" not in words.split(".")[0]


def overflow_of(error: BaseException | None) -> str | None:
    """Return the message of an error if the conversation was too long for the model, otherwise None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, BaseExceptionGroup):
            return next((overflow for each in error.exceptions if (overflow := overflow_of(each)) is not None), None)
        kind = error.kind if isinstance(error, ModelError) else "other"
        if kind == "context_overflow" or (kind in ("other", "invalid_request") and is_too_long(text_of(error))):
            return text_of(error) or kind
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return None
