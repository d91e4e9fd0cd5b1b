"""The texts with which providers and their SDKs say that a conversation is too long for a model."""

import re

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
