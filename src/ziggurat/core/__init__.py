"""The base package: services, layers, the context of a call, and the record of a run.

Nothing here knows about models, tools or agents.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.core.context import CLOCK as CLOCK, Context as Context, Key as Key, root as root
    from ziggurat.core.service import Service as Service, stack as stack
    from ziggurat.core.settings import PositiveInt as PositiveInt
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
