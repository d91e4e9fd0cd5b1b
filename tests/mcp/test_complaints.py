"""What users of other clients have suffered from, in `complaints.txt`: each has a rule here, and a test."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def test_each_complaint_has_a_test() -> None:
    lines = [line.split(" | ") for line in (FOLDER / "complaints.txt").read_text().splitlines()[1:]]
    tests = {name for file in FOLDER.glob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())}
    assert [int(report.split()[0]) for report, _, _ in lines] == [*range(1, 26)]
    assert not {test for _, _, test in lines} - tests
