"""Writers that are stopped at some operations; `make faults` has more of them."""

import re
import subprocess
import sys

from tests.samples import amount


def test_runs_of_stopped_writers_are_taken_over_and_nothing_is_lost() -> None:
    command = [sys.executable, "-m", "tests.faults", "pauses", "--every", str(amount(25, 5))]
    command += ["--pairs", str(amount(4, 20)), "--seed", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    counted = re.search(r"stops (\d+) lost 0 shut out 0 ", said)
    assert counted, said
    assert int(counted[1]) >= amount(10, 50), said
    assert done.returncode == 0
