"""A fake provider to test a client against: real HTTP on loopback, three wire formats, errors, cuts and delays."""

from ziggurat.testing.server.loopback import ReceivedRequest
from ziggurat.testing.server.provider import FakeProvider
from ziggurat.testing.server.quirk import Quirk, cut, stall, status

__all__ = ["FakeProvider", "Quirk", "ReceivedRequest", "cut", "stall", "status"]
