"""Sandboxes: places where programs that a model has written can do no harm."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.sandbox.command import Shell as Shell
    from ziggurat.sandbox.sandbox import ProgramError as ProgramError, Sandbox as Sandbox
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
