"""The arguments of all kinds of memory: the options of remembering, and their checks."""

__all__ = ["RememberOptions", "check_content", "check_ids", "checked_tags", "texts"]

from collections.abc import Iterable, Mapping, Sequence
from typing import TypedDict, get_args

from ziggurat.core.errors import ConfigurationError
from ziggurat.memory.record import Origin


class RememberOptions(TypedDict, total=False):
    """The options of every kind of memory; see `View.remember`."""

    importance: float
    tags: Iterable[str]
    origin: Origin
    taint: Iterable[str]
    supersedes: str | None
    embedding: bytes | None
    facts: Mapping[str, object] | None


def check_content(content: str, importance: float, origin: Origin, embedding: object, facts: object) -> None:
    """Check what is to be remembered.

    Raises:
        ConfigurationError: the content is empty, or an argument has the wrong type.
    """
    if not isinstance(content, str) or not content.strip():
        raise ConfigurationError(f"what is remembered is a non-empty string, got {content!r}")
    if isinstance(importance, bool) or not isinstance(importance, (int, float)):
        raise ConfigurationError(f"importance is a number from 0 to 1, got {importance!r}")
    if origin not in get_args(Origin):
        raise ConfigurationError(f"origin, who said it, is one of {', '.join(get_args(Origin))}; got {origin!r}")
    if facts is not None and not (isinstance(facts, Mapping) and all(isinstance(name, str) for name in facts)):
        raise ConfigurationError(f"facts maps names to plain values: facts={{'year': 1999}}; got {facts!r:.200}")
    _check_embedding(embedding)


def _check_embedding(embedding: object) -> None:
    if embedding is not None and not (isinstance(embedding, bytes) and len(embedding) % 4 == 0):
        raise ConfigurationError(f"an embedding is 32-bit floats: write it with pack(); got {embedding!r:.80}")


def check_ids(ids: Sequence[str]) -> None:
    """Check the ids of memories.

    Raises:
        ConfigurationError: one is not a string.
    """
    for each in ids:
        if not isinstance(each, str):
            raise ConfigurationError(f"a memory is named by its id, a string such as record.id; got {each!r:.200}")


def checked_tags(query: str | None, limit: int, tags: Iterable[str], embedding: bytes | None) -> tuple[str, ...]:
    """Check the arguments of a recall and return its tags.

    Raises:
        ConfigurationError: an argument has the wrong type or range.
    """
    if query is not None and not isinstance(query, str):
        raise ConfigurationError(f"what is looked for is text, got {query!r:.200}")
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 0:
        raise ConfigurationError(f"limit, how many at most, is a whole number that is not below 0; got {limit!r}")
    _check_embedding(embedding)
    return texts("tags", tags)


def texts(what: str, given: Iterable[str]) -> tuple[str, ...]:
    """Return words, such as tags, as a tuple.

    Raises:
        ConfigurationError: it is a single string, or not an iterable of strings.
    """
    if isinstance(given, str):
        raise ConfigurationError(f"{what} is a list of words, such as [{given!r}]; got the string {given!r}")
    words = tuple(given) if isinstance(given, Iterable) else (None,)
    if not all(isinstance(word, str) for word in words):
        raise ConfigurationError(f"{what} is a list of words, such as ['travel']; got {given!r:.200}")
    return words
