"""Incomplete JSON, such as the arguments of a tool while they are streamed."""

from ziggurat.core.errors import InvalidArguments, MissingExtra


def partial(text: str) -> object:
    """Parse the beginning of a JSON text, to show arguments and output while they are streamed.

    An incomplete text is closed at its end: an unfinished string is kept up to there; an unfinished key, word or
    number is left out. Text after a complete value is ignored. Half of a surrogate pair becomes a question mark. Use
    the value only for display, never to act on it: a number may still grow (``12`` of ``123``). The time is
    proportional to the length of the text.

    Args:
        text: The pieces so far, joined, such as the `arguments` of the deltas of one tool call.

    Returns:
        The value; None if nothing can be shown yet.

    Raises:
        InvalidArguments: the text is not the beginning of JSON, nests deeper than about 200 levels, or has a number of
            more than 4,300 digits.
        MissingExtra: the extra ``partial`` is not installed.

    >>> partial('{"city": "Par')
    {'city': 'Par'}
    """
    try:
        from pydantic_core import from_json  # jiter, in the package that users of pydantic have already
    except ImportError:
        raise MissingExtra("reading incomplete JSON", "partial") from None
    try:
        value: object = from_json(text.encode(errors="replace"), allow_partial="trailing-strings")
    except ValueError as error:
        if "EOF while parsing" in str(error):
            return None
        raise InvalidArguments(f"not the beginning of JSON: {error}") from None
    return value
