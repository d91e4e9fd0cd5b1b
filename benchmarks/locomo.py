"""Recall@10 on LoCoMo-10: the share of evidence for questions about long conversations among ten recalled memories.

    python -P benchmarks/locomo.py FOLDER [--half first|second|all] [--store memory:|sqlite:///...|postgresql://...]

FOLDER holds locomo10.json of the LoCoMo project, which is for evaluation only and no part of this one. Every turn of
a conversation becomes a memory of its own: date, speaker, words and the caption of a picture, with the turns just
before and after as its context. A question is used unchanged. Recall@10 is the share of its evidence turns among
the first ten, averaged over questions. Adversarial questions name the wrong speaker; what they are about has evidence.
"""

import argparse
import asyncio
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ziggurat.core.context import root
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.store import MemoryStore, Query, open_memory
from ziggurat.memory.words import CONTEXT
from ziggurat.messages.model import EmbedRequest
from ziggurat.models.embed import resolve_embedder

KINDS = {1: "several turns", 2: "time", 3: "open domain", 4: "one turn", 5: "adversarial"}
Data = dict[str, Any]
"""A conversation, a turn of it, or a question, as read from the file."""
WAYS = ("words, plain", "words", "meaning", "both")


def turns(conversation: Data) -> Iterator[tuple[int, str, Data]]:
    """Yield for each turn the number of its session, the date of the session, and the turn."""
    for number in range(1, 100):
        for turn in conversation.get(f"session_{number}", ()):
            yield number, conversation[f"session_{number}_date_time"], turn


def said(turn: Data) -> str:
    """Return the speaker, the words, and the caption of a picture."""
    caption = f" [{turn['blip_caption']}]" if turn.get("blip_caption") else ""
    return f"{turn['speaker']}: {turn['text']}{caption}"


def memories(conversation: Data, owner: str, vectors: dict[str, bytes]) -> list[MemoryRecord]:
    """Return a memory for each turn."""
    found, all_turns = [], list(turns(conversation))
    for place, (session, date, turn) in enumerate(all_turns):
        near = [
            said(other)
            for at, (other_session, _, other) in enumerate(all_turns)
            if abs(at - place) == 1 and other_session == session
        ]
        found.append(
            MemoryRecord(
                id=f"{owner}/{turn['dia_id']}",
                owner=owner,
                content=f"{date} {said(turn)}",
                embedding=vectors.get(said(turn)),
                facts={CONTEXT: " ".join(near)},
                created=float(place),
            )
        )
    return found


def evidence(question: Data, known: set[str]) -> set[str]:
    """Return the turns that contain the evidence, if they exist."""
    found = re.findall(r"D(\d+):(\d+)", " ".join(question.get("evidence") or ()))
    return {name for session, turn in found if (name := f"D{int(session)}:{int(turn)}") in known}


async def embedded(texts: Sequence[str]) -> dict[str, bytes]:
    """Return the vectors of texts, from the embedded sentence model."""
    embedder, vectors = resolve_embedder("local"), dict[str, bytes]()
    for start in range(0, len(texts), 64):
        some = tuple(texts[start : start + 64])
        vectors.update(zip(some, (await embedder(EmbedRequest(some), root("locomo"))).vectors, strict=True))
    return vectors


async def asked(store: MemoryStore, way: str, owner: str, question: str, vector: bytes) -> set[str]:
    """Return the ids of the recalled turns."""
    text = None if way == "meaning" else question
    query = Query(owner=owner, text=text, embedding=vector if way in ("meaning", "both") else None, limit=10)
    return {hit.record.id.partition("/")[2] for hit in await store.search(query)}


async def main(folder: Path, half: str, url: str) -> None:
    samples = json.loads((folder / "locomo10.json").read_text())
    started = time.perf_counter()
    texts = {said(turn) for sample in samples for _, _, turn in turns(sample["conversation"])}
    texts |= {question["question"] for sample in samples for question in sample["qa"]}
    vectors = await embedded(sorted(texts))
    print(f"{len(texts)} texts embedded in {time.perf_counter() - started:.0f} s")
    scores: dict[str, dict[int, list[float]]] = {way: defaultdict(list) for way in WAYS}
    for number, sample in enumerate(samples):
        owner = str(number)
        records = memories(sample["conversation"], owner, vectors)
        bare, rich = open_memory("memory:"), open_memory(url)
        plain = {f"{owner}/{turn['dia_id']}": turn["text"] for _, _, turn in turns(sample["conversation"])}
        await bare.add([MemoryRecord(id=each.id, owner=owner, content=plain[each.id]) for each in records])
        await rich.put(records)
        known = {name.partition("/")[2] for name in plain}
        for place, question in enumerate(sample["qa"]):
            wanted = evidence(question, known)
            if not wanted or (half == "first" and place % 2) or (half == "second" and not place % 2):
                continue
            for way in WAYS:
                store = bare if way == "words, plain" else rich
                got = await asked(store, way, owner, question["question"], vectors[question["question"]])
                scores[way][question["category"]].append(len(wanted & got) / len(wanted))
        await rich.close()
    show(scores)


def show(scores: dict[str, dict[int, list[float]]]) -> None:
    """Print recall by kind of question."""
    print(f"{'recall@10':<15}{'questions':>10}" + "".join(f"{way:>15}" for way in WAYS))
    for kind in sorted(KINDS):
        rows = [scores[way][kind] for way in WAYS]
        if rows[0]:
            means = "".join(f"{sum(row) / len(row):>15.3f}" for row in rows)
            print(f"{KINDS[kind]:<15}{len(rows[0]):>10}{means}")
    for name, left_out in (("all", 0), ("without the last", 5)):
        rows = [[score for kind in scores[way] if kind != left_out for score in scores[way][kind]] for way in WAYS]
        print(f"{name:<16}{len(rows[0]):>9}" + "".join(f"{sum(row) / len(row):>15.3f}" for row in rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--half", choices=("first", "second", "all"), default="all")
    parser.add_argument("--store", default="memory:")
    given = parser.parse_args()
    asyncio.run(main(given.folder, given.half, given.store))
