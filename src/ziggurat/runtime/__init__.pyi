# Written by tests/test_names.py from __init__.py.
from ziggurat.agents.runtime import Runtime as Runtime
from ziggurat.runtime.bus import Address as Address
from ziggurat.runtime.bus import Broadcast as Broadcast
from ziggurat.runtime.bus import Bus as Bus
from ziggurat.runtime.bus import BusClosed as BusClosed
from ziggurat.runtime.bus import BusMessage as BusMessage
from ziggurat.runtime.bus import BusStatistics as BusStatistics
from ziggurat.runtime.bus import Lagged as Lagged
from ziggurat.runtime.bus import Role as Role
from ziggurat.runtime.bus import Specific as Specific
from ziggurat.runtime.bus import Subscription as Subscription
from ziggurat.runtime.directory import Directory as Directory
from ziggurat.runtime.directory import Health as Health
from ziggurat.runtime.directory import Match as Match
from ziggurat.runtime.directory import Registration as Registration

__all__: list[str]
