"""Whether an object has the methods of a protocol, and whether what it returns can be awaited."""

__all__ = ["implements", "is_synchronous", "make_async"]

from functools import cache, partial
from inspect import iscoroutinefunction, unwrap
from types import FunctionType, MethodType
from typing import Any


def implements(value: object, protocol: type) -> bool:
    """Return whether an object has all methods of a protocol.

    Unlike ``isinstance``, which from Python 3.12 on does not see what ``__getattr__`` returns, it asks the object
    itself, so that a store may delegate to another. A class is no implementation; its instances are.
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _methods(protocol))


@cache
def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(name for name, each in vars(protocol).items() if callable(each) and not name.startswith("_"))


_AWAITED = ("Awaitable", "Coroutine", "Future", "Task", "Any", "object", "~")


def is_synchronous(value: Any) -> bool:
    """Return whether a function, or an object with ``__call__``, surely returns nothing that can be awaited.

    It may return something if it is async, annotated to do so, or a lambda, which may pass on what an async function
    returns.
    """
    while isinstance(value, partial):
        value = value.func
    function = value if isinstance(value, (FunctionType, MethodType)) else type(value).__call__
    written = unwrap(getattr(function, "__func__", function))
    if not isinstance(written, FunctionType) or written.__name__ == "<lambda>" or iscoroutinefunction(written):
        return False
    returns = written.__annotations__.get("return", "")
    text = returns.__name__ if isinstance(returns, type) and returns is not object else str(returns)
    return not any(word in text for word in _AWAITED)


def make_async(value: object) -> str:
    """Return how to correct a value that is no async function, to be added to a sentence; empty for other things."""
    if not callable(value) or isinstance(value, type) or not is_synchronous(value):
        return ""
    name = getattr(value, "__name__", "function")
    return (
        f", which is not async: write it as async def, make it a tool with tool({name}), or annotate it as returning "
        "an Awaitable"
    )
