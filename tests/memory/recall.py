"""How well memories are recalled: the share of questions whose fact comes first, and among the first five.

    PYTHONPATH=src python -m tests.memory.recall tests/memory/data/recall_reporting.jsonl [--distractors 10]

The constants of the score were chosen with ``recall_development.jsonl`` and the first half of the questions of
LoCoMo-10 (see ``benchmarks/locomo.py``). Questions of the type "unknown" have no answer. Of them, and of all others,
the share for which nothing certain is recalled is shown.
"""

__all__ = ["Measured", "measure", "rows_of"]

import argparse
import asyncio
from collections import defaultdict
from pathlib import Path

import msgspec

from ziggurat.agents.memory.showing import doubtful
from ziggurat.core import root
from ziggurat.memory import AgentMemory, Query, open_memory
from ziggurat.memory.search import BOUNDS
from ziggurat.messages import EmbedRequest
from ziggurat.models import resolve_embedder


class Row(msgspec.Struct):
    """A fact, a question or a distractor."""

    kind: str
    id: str
    text: str
    answers: list[str] = []
    type: str = ""
    language: str = "en"


class Measured(msgspec.Struct):
    """Counts of questions: all, those whose fact came first, those whose fact was among the first five.

    `doubtful` counts those for which nothing certain is recalled, by meaning and words together.
    """

    questions: int = 0
    first: int = 0
    among_five: int = 0
    doubtful: int = 0


def rows_of(path: Path) -> list[Row]:
    return [msgspec.json.decode(line, type=Row) for line in path.read_bytes().splitlines()]


async def measure(rows: list[Row], *, distractors: int = 1) -> dict[str, dict[str, Measured]]:
    """Return the counts by type of question and by way of search; "all" is every question with an answer."""
    embedder = resolve_embedder("local")
    memory = AgentMemory(open_memory("memory:"), "ann", embedder=embedder)
    facts = [row for row in rows if row.kind == "fact"]
    others = [row.text for row in rows if row.kind == "distractor"]
    made = await memory.episodic.remember_all([row.text for row in facts])
    await memory.episodic.remember_all(
        [text if copy == 0 else f"{text} That was {copy} days ago." for copy in range(distractors) for text in others]
    )
    ids = {record.id: row.id for record, row in zip(made, facts, strict=True)}
    counts: dict[str, dict[str, Measured]] = defaultdict(lambda: defaultdict(Measured))
    for row in rows:
        if row.kind != "question":
            continue
        vector = (await embedder(EmbedRequest((row.text,), "query"), root("recall"))).vectors[0]
        meaning = await memory.store.search(Query(owner="ann", embedding=vector, limit=5))
        words = await memory.store.search(Query(owner="ann", text=row.text, limit=5))
        recalled = await memory.recall(row.text, limit=5)
        found = {
            "meaning": [hit.record.id for hit in meaning],
            "words": [hit.record.id for hit in words],
            "recall": [each.record.id for each in recalled],
        }
        for way, names in found.items():
            for kind in (row.type, "all") if row.answers else (row.type,):
                count = counts[kind][way]
                count.questions += 1
                count.doubtful += way == "recall" and all(doubtful(each, BOUNDS) for each in recalled)
                count.first += bool(names) and ids.get(names[0]) in row.answers
                count.among_five += any(ids.get(name) in row.answers for name in names)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--distractors", type=int, default=1, metavar="TIMES")
    given = parser.parse_args()
    counts = asyncio.run(measure(rows_of(given.file), distractors=given.distractors))
    for kind in sorted(counts):
        if kind in ("unknown", "all"):
            each = counts[kind]["recall"]
            print(f"{kind:<14}{each.questions:>5}    nothing certain {each.doubtful / each.questions:.3f}")
        if kind == "unknown":
            continue
        ways = "".join(
            f"{way:>10} {each.first / each.questions:.3f} {each.among_five / each.questions:.3f}"
            for way, each in counts[kind].items()
        )
        print(f"{kind:<14}{counts[kind]['recall'].questions:>5}{ways}")


if __name__ == "__main__":
    main()
