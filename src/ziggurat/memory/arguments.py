"""The arguments of all kinds of memory: what they may be, and the options of remembering."""

from collections.abc import Iterable, Mapping
from typing import Annotated, TypedDict

from msgspec import Meta

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import Settings
from ziggurat.memory.record import Origin

Words = Iterable[str]
"""Words, such as tags."""

Vector = Annotated[bytes, Meta(description="32-bit floats as pack() writes them")]
"""A vector, as `record.pack` writes it."""


class RememberOptions(TypedDict, total=False):
    """The options of every kind of memory; see `View.remember`."""

    importance: float
    tags: Words
    origin: Origin
    taint: Words
    supersedes: str | None
    embedding: Vector | None
    facts: Mapping[str, object] | None


_OPTIONS = Settings(RememberOptions.__annotations__, RememberOptions)


def check_options(options: RememberOptions) -> None:
    """Check options that are changed before they are passed on."""
    _OPTIONS.check("remember", options.items())


def check_vector(embedding: bytes | None) -> None:
    """Check the length of a vector, which its type does not tell."""
    if embedding is not None and len(embedding) % 4:
        raise ConfigurationError(f"an embedding is 32-bit floats: write it with pack(); got {embedding!r:.80}")
