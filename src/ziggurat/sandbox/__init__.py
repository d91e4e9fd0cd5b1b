"""Sandboxes: places where programs that a model has written can do no harm."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.sandbox.command import CommandResult as CommandResult, Shell as Shell
    from ziggurat.sandbox.sandbox import (
        HostCall as HostCall,
        ProgramError as ProgramError,
        ProgramResult as ProgramResult,
        Sandbox as Sandbox,
        Session as Session,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
