"""Helpers for tests of agents: scripted models, test doubles, a manual clock, faults, a leak check."""

from ziggurat.models.real import allow_real_calls, forbid_real_calls
from ziggurat.models.replay import ReplayModel
from ziggurat.models.scripted import PAUSE, Pause, ScriptedModel
from ziggurat.testing.cassettes import Cassette, replay_record
from ziggurat.testing.clock import HandClock, settle
from ziggurat.testing.expect import Expected, Handle, Responder, expect
from ziggurat.testing.faults import FailingOn, fail_on
from ziggurat.testing.leaks import assert_no_leaks

__all__ = [
    "PAUSE",
    "Cassette",
    "Expected",
    "FailingOn",
    "HandClock",
    "Handle",
    "Pause",
    "ReplayModel",
    "Responder",
    "ScriptedModel",
    "allow_real_calls",
    "assert_no_leaks",
    "expect",
    "fail_on",
    "forbid_real_calls",
    "replay_record",
    "settle",
]
