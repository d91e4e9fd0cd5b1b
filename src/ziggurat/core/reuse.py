"""Keys and copies for layers that reuse answers, such as a cache."""

from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ziggurat.core.codec import canonical
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import COMPOSITE, fact, name_of
from ziggurat.core.failures import call_given
from ziggurat.core.path import REUSED

if TYPE_CHECKING:
    from ziggurat.core.protocols import Fingerprinted, Identified, Recalled, Reusable

R = TypeVar("R")


def identity(request: object) -> str:
    """Return a text that identifies a request, including everything that can affect its answer."""
    kind = type(request)
    if hasattr(kind, "identity"):
        return sha256(cast("Identified", request).identity()).hexdigest()
    if hasattr(kind, "fingerprint"):
        return cast("Fingerprinted", request).fingerprint()
    return sha256(canonical(request)).hexdigest()


def is_reusable(answer: object) -> bool:
    """Return whether others may get an answer, too: False if its own `is_reusable` says that it is not whole."""
    return cast("Reusable", answer).is_reusable if hasattr(type(answer), "is_reusable") else True


def recalled(answer: R) -> R:
    """Return an answer prepared for reuse: the result of its own `recalled()` if it has that method."""
    return cast("R", cast("Recalled", answer).recalled()) if hasattr(type(answer), "recalled") else answer


def key_of(layer: str, service: object, request: object, key: Callable[[Any], str] | None, ctx: Context) -> str:
    """Return the key under which a layer stores the answer to a request: by default service name and identity."""
    if key is not None:
        name: object = call_given(key, ctx, request)
        if not isinstance(name, str):
            raise ConfigurationError(f"the function of {layer}(key=...) returns text, got {name!r:.200}")
        return name
    try:
        return f"{name_of(service)}:{identity(request)}"
    except TypeError as error:
        raise ConfigurationError(
            f"{layer}() cannot tell requests apart: {error}; give {layer}(key=...), a function of the request"
        ) from error


async def note_reuse(ctx: Context, service: object) -> None:
    """Record that an agent was answered with what another call was answered with, so that a replay looks for no
    calls."""
    if not ctx.leaf and ctx.scope.get(JOURNAL) is not None and fact(service, COMPOSITE):
        await ctx.at(REUSED).once(REUSED, None, _noted, returns=bool)


async def _noted(_: None, ctx: Context) -> bool:
    return True
