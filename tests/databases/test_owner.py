"""Who holds a lease is told from one that is gone: an ended process, its number used again, another machine."""

import os
import subprocess
import sys

import pytest

from ziggurat.databases import owner
from ziggurat.databases.owner import is_gone, new_owner

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
