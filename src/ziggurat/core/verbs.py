"""Verbs: their arguments are checked when they are called, and one that is not awaited says so."""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from ziggurat.core.settings import checker

T = TypeVar("T")
P = ParamSpec("P")


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


def verb(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Check the arguments of a verb as `checked` does, and let what it returns name the verb if it is not awaited."""
    name, title, check = method.__name__, method.__qualname__, checker(method)

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        check(args, kwargs)
        coroutine: Any = method(*args, **kwargs)
        coroutine.__name__, coroutine.__qualname__ = name, title  # for Python's warning about one that was not awaited
        return _Unawaited(coroutine, name)

    return call
