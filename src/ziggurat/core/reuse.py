"""What requests and answers say of themselves to those who give an answer again, such as a cache."""

__all__ = ["identity", "key_of", "recalled"]

from collections.abc import Callable
from hashlib import sha256
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from ziggurat.core.codec import canonical
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.facts import name_of
from ziggurat.core.lines import Fingerprinted

R = TypeVar("R")


@runtime_checkable
class Identified(Protocol):
    """A request of which more than its fingerprint bears on the answer."""

    def identity(self) -> bytes:
        """Return all that bears on the answer, in a form that equal requests share."""
        ...


@runtime_checkable
class Recalled(Protocol):
    """An answer that differs when it is given again, since that costs nothing."""

    def recalled(self) -> object:
        """Return the answer as it is given again."""
        ...


def identity(request: object) -> str:
    """Return what tells two requests apart when an answer may be given again: all that bears on it counts.

    It is SHA-256 over the request's own `identity()`, or over its JSON with sorted keys; of a request with nothing
    but a `fingerprint()`, that is it.

    Raises:
        TypeError: the request has no JSON form.
    """
    if isinstance(request, Identified):
        return sha256(request.identity()).hexdigest()
    if isinstance(request, Fingerprinted):
        return request.fingerprint()
    return sha256(canonical(request)).hexdigest()


def recalled(answer: R) -> R:
    """Return an answer as it is given again."""
    return cast("R", answer.recalled()) if isinstance(answer, Recalled) else answer


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
