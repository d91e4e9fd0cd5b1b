"""Values that leave a sandbox: walked with a budget before anything else touches them."""

from typing import Any

from msgspec import Struct

from ziggurat.sandbox.errors import ProgramError

MAX_DEPTH = 64
"""How deep a value from a sandbox may be nested."""

MAX_NODES = 100_000
"""How many parts it may have; one that occurs several times counts each time."""

_MAX_BITS = 4_096
"""The size of its integers: longer ones are slow to write in decimal."""


class _Budget(Struct):
    nodes: int
    bytes: int


def plain(value: object, size: int) -> Any:
    """Return a copy of a value from a sandbox, made of JSON's types alone.

    A list that a program has nested in itself, or that holds another one twice 40 times over, takes no memory before it
    is copied or written, and all of it afterwards.

    Args:
        value: The value, with anything in it.
        size: The bytes that it may have in all.

    Raises:
        ProgramError: it is too large or too deeply nested, or has a part that is no data.
    """
    return _copied(value, _Budget(MAX_NODES, size), 0)


def _copied(value: object, budget: _Budget, depth: int) -> Any:
    budget.nodes -= 1
    budget.bytes -= 8
    if depth > MAX_DEPTH:
        raise ProgramError("ValueError", f"a value that leaves the program is nested more than {MAX_DEPTH} levels deep")
    kind = type(value)
    if kind is str:
        budget.bytes -= len(value)  # type: ignore[arg-type]
    _check(budget)
    if value is None or kind is bool or kind is float:
        return value
    if kind is str:
        return _text(value)  # type: ignore[arg-type]
    if kind is int:
        if value.bit_length() > _MAX_BITS:  # type: ignore[attr-defined]
            raise ProgramError("ValueError", f"an integer that leaves the program has more than {_MAX_BITS} bits")
        return value
    if kind is list or kind is tuple or kind is set or kind is frozenset:
        return [_copied(each, budget, depth + 1) for each in value]  # type: ignore[attr-defined]
    if kind is dict:
        return {_key(key, budget): _copied(each, budget, depth + 1) for key, each in value.items()}  # type: ignore[attr-defined]
    raise ProgramError(
        "TypeError",
        f"a value of the type {kind.__name__:.60} cannot leave the program; only text, numbers, lists, dicts and None",
    )


def _key(key: object, budget: _Budget) -> str:
    if not isinstance(key, (str, int, float)):
        raise ProgramError("TypeError", "the keys of a dict that leaves the program must be text or numbers")
    return str(_copied(key, budget, 0))


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ProgramError("ValueError", "a text that leaves the program has half of a surrogate pair") from None
    return value


def _check(budget: _Budget) -> None:
    if budget.nodes < 0 or budget.bytes < 0:
        raise ProgramError("ValueError", "a value that leaves the program is too large")
