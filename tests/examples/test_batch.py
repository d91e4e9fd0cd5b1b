"""The batch that may be killed."""

import json
import re
import subprocess
from pathlib import Path

from tests.examples.programs import ENVIRONMENT, ROOT, command, output_of

SENTENCES = ("The soup was not warm", "A lovely evening", "The waiter was kind", "The waiter did not come")
VERDICTS = ("bad, food", "good, food", "good, service", "bad, service")
COUNT = 60


def test_a_killed_batch_goes_on_where_it_was(tmp_path: Path) -> None:
    reviews, runs = tmp_path / "reviews.jsonl", tmp_path / "runs.db"
    lines = [json.dumps({"id": f"r-{at}", "text": SENTENCES[at % 4]}) for at in range(COUNT)]
    reviews.write_text("\n".join(lines))
    first = subprocess.Popen(command("batch.py", reviews, runs), stdout=subprocess.PIPE, env=ENVIRONMENT, cwd=ROOT)
    with first:
        assert first.stdout is not None
        seen = [first.stdout.readline() for _ in range(10)]
        first.kill()
    assert first.returncode != 0
    assert all(seen)

    printed = output_of("batch.py", reviews, runs).splitlines()
    assert sorted(printed[:-1]) == sorted(f"r-{at}: {VERDICTS[at % 4]}" for at in range(COUNT))
    total = re.fullmatch(r"60 reviews, 30 bad; (\d+) were known from an earlier start", printed[-1])
    assert total is not None
    assert 10 <= int(total[1]) < COUNT
