"""The time of every reader of what others wrote grows with the size of its input, not with its square.

Four of them are measured in the suite; the long form measures all, with larger inputs.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from tests.growth import plants
from tests.growth.__main__ import CASES
from tests.growth.measure import FACTOR
from tests.samples import LONG, sample

READERS = sorted({case.name for case in CASES if not case.name.startswith("plants.")})
MEASURED = (
    READERS
    if LONG
    else ["http.sse.EventParser", "messages.message.Fold", "agents.partial.partial", "tools.arguments.read"]
)

# Memory that was returned would cost large inputs, and not small ones, the time to get it again.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000", "PYTHONHASHSEED": "0"}

Measure = Callable[[str], dict[str, tuple[float, str]]]
"""Returns the factor and a sentence for each case of a function."""


@pytest.fixture(scope="module")
def measure() -> Iterator[Measure]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.growth"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **_KEEP_MEMORY},
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(name: str) -> dict[str, tuple[float, str]]:
            print(name, file=stdin, flush=True)
            return {
                case: (factor, f"{factor:.1f} times as long for 4 times the size, {seconds:.4f} s at {size:,}")
                for case, factor, size, seconds in json.loads(stdout.readline())
            }

        yield ask
        stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("name", MEASURED)
def test_time_grows_with_the_size_of_the_input(name: str, measure: Measure) -> None:
    cases = measure(name)
    assert cases
    slow = [f"{case}: {sentence}" for case, (factor, sentence) in cases.items() if factor > FACTOR]
    assert not slow, "\n".join(slow)


@pytest.mark.parametrize("name", sample([case.name for case in plants.SQUARE], 1))
def test_a_function_that_takes_the_square_is_found(name: str, measure: Measure) -> None:
    assert all(factor > FACTOR for factor, _ in measure(name).values())


@pytest.mark.parametrize("name", sample(sorted({case.name for case in plants.LINEAR}), 1))
def test_a_function_that_takes_its_time_once_passes(name: str, measure: Measure) -> None:
    assert all(factor <= FACTOR for factor, _ in measure(name).values())
