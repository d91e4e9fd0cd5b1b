# Written by tests/test_names.py from fake_provider.py.
from ziggurat.testing.server import FakeProvider as FakeProvider
from ziggurat.testing.server import Quirk as Quirk
from ziggurat.testing.server import ReceivedRequest as ReceivedRequest
from ziggurat.testing.server import cut as cut
from ziggurat.testing.server import stall as stall
from ziggurat.testing.server import status as status

__all__: list[str]
