"""Lease owners: names that tell whether the process holding a lease is still alive, and when to look for lost ones."""

import math
import os
import socket
import time
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from ziggurat.core.clock import Clock, new_id
from ziggurat.core.errors import LeaseHeld
from ziggurat.journal.store import LogInfo

_ENDED = "ended"


def new_owner() -> str:
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_start_time(pid)}|{new_id()[:12]}"


def is_gone(owner: str) -> bool:
    """Return whether a holder is known to be dead: its process was on this machine and no longer exists."""
    machine, _, rest = owner.partition("|")
    number, _, rest = rest.partition("|")
    if machine != _machine() or not number.isdigit():
        return False
    pid = int(number)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    began = _start_time(pid)
    return began == _ENDED or (bool(began) and began != rest.partition("|")[0])


def without_lost_lease(info: LogInfo) -> LogInfo:
    return replace(info, owner="") if info.owner and is_gone(info.owner) else info


def lease_held(log: str, owner: str, left: float | None = None) -> LeaseHeld:
    kind, _, name = log.partition(":")
    what = f"the {kind} {name}" if kind in ("run", "session") else log
    who, cure = describe_owner(owner)
    text = f"{what} is being written by {who}; wait until it is done, or {cure}"
    if left is not None:
        text += f". If it hangs or was cut off, its lease expires in {max(1, math.ceil(left))} s"
    return LeaseHeld(text)


def describe_owner(owner: str) -> tuple[str, str]:
    machine, _, rest = owner.partition("|")
    number = rest.partition("|")[0]
    if machine != _machine():
        return f"another process ({number} on {machine.partition('/')[0]})", "end that process"
    if number == str(os.getpid()):
        return "another store of this process", "close that one"
    if number.isdigit() and _state(int(number))[:1] == ["T"]:
        return f"another process ({number} on this machine, which is stopped)", "continue or end that process"
    return f"another process ({number} on this machine)", "end that process"


@cache
def _machine() -> str:
    """Return a name for this machine, different for containers on it."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        space = boot = ""
    return f"{socket.gethostname()}/{boot}/{space}".replace("|", "_")


def _start_time(pid: int) -> str:
    """Return the system's start time of a process, which tells it from a later one; empty where it cannot be read."""
    fields = _state(pid)
    if fields[:1] in (["Z"], ["X"]):  # a zombie is listed until its parent has waited for it
        return _ENDED
    return fields[19] if fields else ""


def _state(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


_PAUSE = 1.0  # the longest time between looks, in seconds


class LostLeases:
    """Knows when to look for runs that have lost their process, which costs more the more runs are being driven."""

    __slots__ = ("_looked", "_monotonic")

    def __init__(self, clock: Clock | None = None) -> None:
        self._monotonic = time.monotonic if clock is None else clock.monotonic
        self._looked: dict[str, float] = {}

    def are_due(self, agent: str) -> bool:
        """Return whether to look for those of an agent in this claim; the next is due a second later."""
        now = self._monotonic()
        if now < self._looked.get(agent, now - _PAUSE) + _PAUSE:
            return False
        self._looked[agent] = now
        return True

    def found(self, agent: str) -> None:
        """Note that a claim has got some of them: there may be more than it had room for, so the next looks again."""
        self._looked.pop(agent, None)
