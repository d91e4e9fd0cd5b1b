"""A fake provider of models: real HTTP on loopback, three wire formats, errors, cuts and delays."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.testing.server.provider import FakeProvider as FakeProvider
    from ziggurat.testing.server.quirk import Quirk as Quirk, cut as cut, stall as stall, status as status
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
