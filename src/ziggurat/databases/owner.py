"""Owners of leases: names by which a live process can be told from one that has ended."""

__all__ = ["is_gone", "lease_held", "new_owner"]

import math
import os
import socket
from functools import cache
from pathlib import Path

from ziggurat.core.clock import new_id
from ziggurat.core.errors import LeaseHeld

_ENDED = "ended"


def new_owner() -> str:
    """Return a name for a holder of leases in this process: its machine, process, and a token of its own."""
    pid = os.getpid()
    return f"{_machine()}|{pid}|{_started(pid)}|{new_id()[:12]}"


def is_gone(owner: str) -> bool:
    """Return whether a holder is known to have ended: its process was on this machine and is there no longer."""
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
    began = _started(pid)
    return began == _ENDED or (bool(began) and began != rest.partition("|")[0])


def lease_held(log: str, owner: str, left: float) -> LeaseHeld:
    """Return the error of who wants to write what another writes: who that is, and what can be done.

    Args:
        log: What is written.
        owner: Who writes it.
        left: For how many seconds yet, unless the holder renews it, as it does while it is well.
    """
    kind, _, name = log.partition(":")
    what = f"the {kind} {name}" if kind in ("run", "session") else log
    machine, _, rest = owner.partition("|")
    number = rest.partition("|")[0]
    if machine == _machine() and number == str(os.getpid()):
        who, cure = "another store of this process", "close that one"
    else:
        host = "this machine" if machine == _machine() else machine.partition("/")[0]
        who, cure = f"another process ({number} on {host})", "end that process"
    return LeaseHeld(
        f"{what} is being written by {who}; wait until it is done, or {cure}. If it hangs or was cut off, its right "
        f"to write lapses in {max(1, math.ceil(left))} s"
    )


@cache
def _machine() -> str:
    """Return what tells machines, and containers on them, apart."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        space = boot = ""
    return f"{socket.gethostname()}/{boot}/{space}".replace("|", "_")


def _started(pid: int) -> str:
    """Return when a process began, as the system counts, so that a number used again is not taken for it.

    Empty where that cannot be seen.
    """
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    fields = status.rpartition(")")[2].split()
    return _ENDED if fields[0] in "ZX" else fields[19]  # it is still listed, until its parent has heard of its end
