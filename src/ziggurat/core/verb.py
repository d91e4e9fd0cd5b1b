"""Verbs such as `run`: methods that are awaited. Where that is forgotten, Python names the verb, and the remedy."""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Unawaited(Coroutine[Any, Any, T]):
    """The coroutine of a verb; an attribute of what it returns is not found before it is awaited."""

    __slots__ = ("_coroutine", "_verb")

    def __init__(self, coroutine: Coroutine[Any, Any, T], verb: str) -> None:
        self._coroutine = coroutine
        self._verb = verb

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def __repr__(self) -> str:
        return repr(self._coroutine)

    def close(self) -> None:
        self._coroutine.close()

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("cr_", "_")):  # of coroutines, for asyncio and debuggers
            return getattr(self._coroutine, name)
        sync = f"; in code that is not async, ....run_sync(...).{name}" if self._verb == "run" else ""
        raise AttributeError(f"{self._verb}(...) is not awaited: write (await ....{self._verb}(...)).{name}{sync}")


def without_await(value: object) -> str:
    """Return what is wrong with a value that is a coroutine; empty for any other."""
    if not isinstance(value, Coroutine):
        return ""
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"{name}(...) is not awaited: write await {name}(...)"


def verb(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Decorate a method that is awaited."""
    name, title = method.__name__, method.__qualname__

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        coroutine: Any = method(*args, **kwargs)
        if isinstance(coroutine, _Unawaited):  # of a verb that this one is made of
            coroutine = coroutine._coroutine
        coroutine.__name__, coroutine.__qualname__ = name, title  # for Python's warning about one that was not awaited
        return _Unawaited(coroutine, name)

    return call
