"""Generated flows: random trees of steps, in sequence, concurrent, failing and handled, with what they must give."""

import random
from functools import partial
from typing import Any

from msgspec.structs import replace

from ziggurat.agents import runs_of
from ziggurat.errors import NotRepeatable
from ziggurat.flows import Flow, first, flow, gather, quorum, settled, step
from ziggurat.journal.entries import JournalEntry, Opened

GROUPS: dict[str, Any] = {"gather": gather, "first": first, "quorum": partial(quorum, 1), "settled": settled}

Tree = tuple[Any, ...]


KINDS = ("step", "once", "fail", "sequence", "handled", "gather", "first", "quorum", "settled")


def tree(chance: random.Random, depth: int = 3) -> Tree:
    """Return a random tree: a kind, and its parts; each step is asked for something else."""
    kind = chance.choice(KINDS if depth else ("step", "once"))
    if kind in ("step", "once", "fail"):
        return kind, f"{kind} {chance.getrandbits(60):x}"
    return kind, *(tree(chance, depth - 1) for _ in range(chance.randint(2, 3)))


class Trial:
    """A tree as a flow; `made` lists the calls of steps that were really made."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.made: list[str] = []

        @step
        async def act(what: str) -> str:
            self.made.append(what)
            return what

        @step(effect="once")
        async def pay(what: str) -> str:
            self.made.append(what)
            return what

        @step
        async def fail(what: str) -> str:
            self.made.append(what)
            raise ValueError(what)

        self.steps = {"step": act, "once": pay, "fail": fail}

    async def run(self, tree: Tree) -> str:
        """Do what a tree says, and return what came of it."""
        kind, *parts = tree
        if kind in self.steps:
            try:
                return await self.steps[kind](parts[0])
            except NotRepeatable:
                return f"unknown {parts[0]}"
        said: list[object] = []
        try:
            if kind in GROUPS:
                said.append(await GROUPS[kind](*map(self.run, parts)))
            else:
                for part in parts:
                    said.append(await self.run(part))
        except Exception as error:
            if kind != "handled":
                raise
            said.append(f"handled {error}")
        return f"{kind}({', '.join(map(str, said))})"

    def flow(self, store: Any) -> Flow[None, str]:
        """Return the flow, with its runs in a store."""

        async def trial() -> str:
            return await self.run(self.tree)

        return flow(name="trial", store=store)(trial)


async def plant(store: Any, run_id: str, entries: list[JournalEntry]) -> None:
    """Create a run that was broken off after these entries."""
    opened = entries[0]
    assert isinstance(opened, Opened)
    await runs_of(store).plant(run_id, "trial", [replace(opened, run_id=run_id), *entries[1:]])
