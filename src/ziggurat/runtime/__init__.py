"""What connects many coroutines of one process: a bus, a directory of who can do what, supervisors, and `Runtime`."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.agents.runtime import Runtime as Runtime
    from ziggurat.runtime.bus import (
        Broadcast as Broadcast,
        Bus as Bus,
        BusClosed as BusClosed,
        Lagged as Lagged,
        Role as Role,
        Specific as Specific,
    )
    from ziggurat.runtime.directory import Capability as Capability, Directory as Directory
    from ziggurat.runtime.supervisor import (
        Child as Child,
        ChildNotStarted as ChildNotStarted,
        RestartsExceeded as RestartsExceeded,
        Shutdown as Shutdown,
        Supervisor as Supervisor,
    )
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
