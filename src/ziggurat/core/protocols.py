"""Whether an object has the methods of a protocol, also where it delegates them to another object."""

__all__ = ["implements"]

from functools import cache


def implements(value: object, protocol: type) -> bool:
    """Return whether an object has all methods of a protocol.

    Unlike ``isinstance``, which from Python 3.12 on does not see what ``__getattr__`` returns, it asks the object
    itself, so that a store may delegate to another. A class is no implementation; its instances are.
    """
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _methods(protocol))


@cache
def _methods(protocol: type) -> tuple[str, ...]:
    return tuple(name for name, each in vars(protocol).items() if callable(each) and not name.startswith("_"))
