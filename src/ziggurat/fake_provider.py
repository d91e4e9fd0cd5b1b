"""A fake provider of models: real HTTP on loopback, three wire formats, errors, cuts and delays."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(__name__, {"testing.server": "*"})
