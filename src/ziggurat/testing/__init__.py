"""Helpers for tests of agents: scripted models, test doubles, a manual clock, faults, a leak check."""

from ziggurat.models.real import allow_real_calls, forbid_real_calls
from ziggurat.models.replay import ReplayModel
from ziggurat.models.scripted import Pause, ScriptedModel, ScriptedReply
from ziggurat.testing.cassettes import Cassette, replay_record
from ziggurat.testing.conversations import apply_violation, valid_conversation
from ziggurat.testing.expect import expect, fail_on
from ziggurat.testing.loop import HandClock, assert_no_leaks, run_until_idle
from ziggurat.testing.stores import CHECKS, run_check

__all__ = [
    "CHECKS",
    "Cassette",
    "HandClock",
    "Pause",
    "ReplayModel",
    "ScriptedModel",
    "ScriptedReply",
    "allow_real_calls",
    "apply_violation",
    "assert_no_leaks",
    "expect",
    "fail_on",
    "forbid_real_calls",
    "replay_record",
    "run_check",
    "run_until_idle",
    "valid_conversation",
]
