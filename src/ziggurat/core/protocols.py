"""What objects can do: what services, requests and answers may define beyond what all do, and how it is found out.

A class need not inherit from these protocols, only have their methods. Those of requests and answers are looked up by
`hasattr`: ``isinstance`` with a protocol takes ten times as long as all else that a layer does with a request.
"""

from functools import cache, partial
from inspect import CO_VARARGS, iscoroutine, iscoroutinefunction, signature, unwrap
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ziggurat.core.entries import JournalEntry

T = TypeVar("T")


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


class Compared(Protocol):
    """A request that says what differs between it and the recorded one; of others only the fingerprints are shown."""

    def compared(self, entries: "Sequence[JournalEntry]", path: str, recorded: str) -> tuple[str, str, str] | None:
        """Return what differs, how it was, and how it is now; None if it cannot say."""
        ...


class Identified(Protocol):
    """A request whose answer depends on more than its fingerprint covers, for layers that reuse answers."""

    def identity(self) -> bytes:
        """Return bytes that cover everything that can affect the answer."""
        ...


class Spent(Protocol):
    """Usage, or an answer with usage, that says which of several services it is of."""

    def spent_by(self, name: str) -> "Spent":
        """Return it as that of the service of this name, unless it is known whose it is, or nothing was used."""
        ...


class Reusable(Protocol):
    """An answer that may be unfit for others who ask the same."""

    @property
    def is_reusable(self) -> bool:
        """Whether it may answer an equal request."""
        ...


class Recalled(Protocol):
    """An answer that differs when it is given a second time: it has cost nothing then."""

    def recalled(self) -> Any:
        """Return the answer for another request."""
        ...


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


def wrongly_async(value: object, protocol: type) -> str:
    """Return which method of an object is async, unlike in a protocol, to be added to a sentence; empty if none is."""
    for name in _synchronous_methods(protocol):
        if is_async(getattr(value, name)):
            return f", whose {name}() is async: write it as def"
    return ""


@cache
def _synchronous_methods(protocol: type) -> tuple[str, ...]:
    return tuple(name for name in _methods(protocol) if is_synchronous(getattr(protocol, name)))


def takes(value: Any, count: int) -> bool:
    """Return whether something can be called with so many arguments, as far as its signature is known."""
    if isinstance(value, FunctionType):
        code, defaults = value.__code__, value.__defaults__ or ()
        many = bool(code.co_flags & CO_VARARGS)
        optional = len(value.__kwdefaults__ or ()) == code.co_kwonlyargcount
        return code.co_argcount - len(defaults) <= count and (many or count <= code.co_argcount) and optional
    try:
        signature(value).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # a class or function that is not written in Python
        return True
    return True


def is_async(value: Any) -> bool:
    """Return whether calling a value gives a coroutine, also if it is an object whose class has an async `__call__`."""
    return iscoroutinefunction(value) or iscoroutinefunction(type(value).__call__)


def closed(value: T) -> T:
    """Return a value that is not awaited; a coroutine is closed, or Python would warn that it never was."""
    if iscoroutine(value):
        value.close()
    return value


_AWAITED = ("Awaitable", "Coroutine", "Future", "Task", "Any", "object", "~")


def is_synchronous(value: Any) -> bool:
    """Return whether a function, or an object with ``__call__``, surely returns nothing that can be awaited."""
    written = _written(value)
    if not isinstance(written, FunctionType) or written.__name__ == "<lambda>" or iscoroutinefunction(written):
        return False
    return not any(word in _returned(written) for word in _AWAITED)


def is_awaited(value: Any) -> bool:
    """Return whether what a function returns can surely be awaited: it is async, or annotated to return that."""
    written = _written(value)
    return iscoroutinefunction(written) or any(word in _returned(written) for word in _AWAITED[:4])


def _written(value: Any) -> Any:
    """Return the function, as it was written, that is called in the end."""
    while isinstance(value, partial):
        value = value.func
    function = value if isinstance(value, (FunctionType, MethodType)) else type(value).__call__
    return unwrap(getattr(function, "__func__", function))


def _returned(written: Any) -> str:
    returns = getattr(written, "__annotations__", {}).get("return", "")
    return returns.__name__ if isinstance(returns, type) and returns is not object else str(returns)


def make_async(value: object) -> str:
    """Return how to correct a value that is no async function, to be added to a sentence; empty for other things."""
    if not callable(value) or isinstance(value, type) or not is_synchronous(value):
        return ""
    name = getattr(value, "__name__", "function")
    return (
        f", which is not async: write it as async def, make it a tool with tool({name}), or annotate it as returning "
        "an Awaitable"
    )
