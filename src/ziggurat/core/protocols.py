"""What objects can do: what services, requests and answers may define beyond what all do, and how it is found out.

A class need not inherit from these protocols, only have their methods. Those of requests and answers are looked up by
`hasattr`: ``isinstance`` with a protocol takes ten times as long as all else that a layer does with a request.
"""

from collections.abc import Coroutine, Mapping
from functools import cache, partial
from inspect import iscoroutinefunction, signature, unwrap
from types import FunctionType, MethodType
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from ziggurat.core.errors import attach, fact_of

R = TypeVar("R")

T = TypeVar("T")

_MOST_CAUSES = 10  # of an error, that are looked at


class Wraps(Protocol):
    """A service that wraps another one, such as a layer."""

    inner: Any


class StatesFacts(Protocol):
    """A service that states facts about itself; see `facts.Fact`."""

    facts: "Mapping[Any, Any]"


class Fingerprinted(Protocol):
    """A request that says what identifies it in a record; of others the digest of their JSON does."""

    def fingerprint(self) -> str:
        """Return a text that is equal for equal requests only."""
        ...


class Spent(Protocol):
    """Usage, or an answer with usage, that says which of several services it is of."""

    def spent_by(self, name: str) -> "Spent":
        """Return it as that of the service of this name, unless it is known whose it is, or nothing was used."""
        ...


def usage_of(value: object) -> object | None:
    """Return the usage in a response or an error, None if it states none."""
    return fact_of(value, "usage", Struct) if isinstance(value, BaseException) else getattr(value, "usage", None)


def asked_of(error: BaseException) -> str:
    """Return the name of the one of several services that was asked when an error came, or one that caused it."""
    each: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if each is not None:
            if name := fact_of(each, "asked", str):
                return name
            each = each.__cause__ or each.__context__  # such as of a time limit
    return ""


def spent_by(value: R, name: str) -> R:
    """Return usage, or an answer or an error with usage, as that of the service of this name, unless it says whose."""
    if isinstance(value, BaseException):
        usage = usage_of(value)
        if usage is not None:
            attach(value, "usage", spent_by(usage, name))
        elif name and not asked_of(value):
            attach(value, "asked", name)
        return value
    return value.spent_by(name) if hasattr(value, "spent_by") else value  # as `Spent` has it


def is_protocol(kind: object) -> bool:
    """Return whether a class is a protocol, and not only inherits from one."""
    return isinstance(kind, type) and Protocol in kind.__bases__


def implements(value: object, protocol: type) -> bool:
    """Return whether an object has all methods of a protocol."""
    # Unlike ``isinstance``, which from Python 3.12 on does not see what ``__getattr__`` returns, it asks the object
    # itself, so that a store may delegate to another. A class is no implementation; its instances are.
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _methods(protocol))


@cache
def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(
        name
        for kind in protocol.__mro__
        for name, each in vars(kind).items()
        if callable(each) and not name.startswith("_")
    )


def takes(value: Any, count: int) -> bool:
    """Return whether something can be called with so many arguments, as far as its signature is known."""
    try:
        signature(value).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a class or function that is not written in Python
        return True
    return True


def closed(value: T) -> T:
    """Return a value that is not awaited; a coroutine is closed, or Python would warn that it never was."""
    if isinstance(value, Coroutine):
        value.close()
    return value


def is_awaited(value: Any) -> bool:
    """Return whether what a function returns can surely be awaited: it is async, or annotated to return that."""
    while isinstance(value, partial):
        value = value.func
    function = value if isinstance(value, (FunctionType, MethodType)) else type(value).__call__
    written = unwrap(getattr(function, "__func__", function))
    returns = getattr(written, "__annotations__", {}).get("return", "")
    words = returns.__name__ if isinstance(returns, type) else str(returns)
    return iscoroutinefunction(written) or any(each in words for each in ("Awaitable", "Coroutine", "Future", "Task"))
