"""Keys for layers that reuse answers, such as a cache: what identifies a request, and how an answer is given again."""

__all__ = ["identity", "key_of", "recalled"]

from collections.abc import Callable
from hashlib import sha256
from typing import Any, TypeVar, cast

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import name_of

R = TypeVar("R")


def identity(request: object) -> str:
    """Return what tells two requests apart when an answer may be given again: all that bears on it counts.

    It is SHA-256 over what the request's own `identity()` returns, in bytes, or over its JSON with sorted keys; of
    a request with nothing but a `fingerprint()`, that is it.

    Raises:
        TypeError: the request has no JSON form.
    """
    kind = type(request)  # asked of it rather than of a protocol: that takes ten times as long as all else here
    if hasattr(kind, "identity"):
        return sha256(cast("Any", request).identity()).hexdigest()
    if hasattr(kind, "fingerprint"):
        return str(cast("Any", request).fingerprint())
    return sha256(canonical(request)).hexdigest()


def recalled(answer: R) -> R:
    """Return an answer as it is given again: what its own `recalled()` returns, where it has one."""
    return cast("R", cast("Any", answer).recalled()) if hasattr(type(answer), "recalled") else answer


def key_of(layer: str, service: object, request: object, key: Callable[[Any], str] | None) -> str:
    """Return the key by which a layer finds the answer to a request: by default service name and identity.

    Raises:
        ConfigurationError: the request has no JSON form, and there is no function that makes its key.
    """
    if key is not None:
        return key(request)
    try:
        return f"{name_of(service)}:{identity(request)}"
    except TypeError as error:
        raise ConfigurationError(
            f"{layer}() cannot tell requests apart: {error}; give {layer}(key=...), a function of the request"
        ) from error
