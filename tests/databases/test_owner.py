"""Tests of lease owners: ended processes, reused process numbers, other machines."""

import os
import subprocess
import sys

import pytest

from ziggurat.databases import owner
from ziggurat.databases.owner import is_gone, lease_held, new_owner

PRINTS = "from ziggurat.databases.owner import new_owner; print(new_owner(), flush=True); input()"


def _other() -> "tuple[subprocess.Popen[str], str]":
    process = subprocess.Popen(
        [sys.executable, "-c", PRINTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="is seen where /proc is")
def test_a_process_of_this_machine_is_gone_when_it_was_killed_also_before_anybody_has_waited_for_it() -> None:
    process, name = _other()
    assert not is_gone(name)
    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # it is a zombie now
    assert is_gone(name)
    process.communicate()
    assert is_gone(name)


def test_a_holder_of_this_process_is_there_and_each_is_another() -> None:
    first, second = new_owner(), new_owner()
    assert first != second
    assert not is_gone(first)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="is seen where /proc is")
def test_a_process_whose_number_is_used_again_is_gone() -> None:
    machine, pid, began, token = new_owner().split("|")
    assert is_gone("|".join([machine, pid, str(int(began) - 1), token]))


@pytest.mark.parametrize("name", ["", "x", "elsewhere|1|2|3", "elsewhere|not a number|2|3"])
def test_of_others_nothing_is_known(name: str) -> None:
    assert not is_gone(name)


def test_a_number_that_is_none_is_no_holder_that_is_gone() -> None:
    assert not is_gone(f"{owner._machine()}|x|2|3")


def test_who_holds_a_lease_is_told_in_words() -> None:
    machine, _pid, began, token = new_owner().split("|")
    mine = str(lease_held("run:r-17", new_owner(), 12.2))
    assert mine == (
        "the run r-17 is being written by another store of this process; wait until it is done, or close that one. "
        "If it hangs or was cut off, its lease expires in 13 s"
    )
    near = str(lease_held("session:alice", "|".join([machine, "1", began, token]), 0.2))
    assert "the session alice is being written by another process (1 on this machine); " in near
    assert "or end that process. " in near
    assert near.endswith("expires in 1 s")
    far = str(lease_held("run:r", "far.example/b00t/pid:[1]|4711|99|c0ffee", 29.0))
    assert "(4711 on far.example)" in far
    for text in (mine, near, far):
        assert "|" not in text
        assert token not in text
        assert "c0ffee" not in text
