"""Generated flows: random trees of steps, in sequence, concurrent, failing and handled, with what they must give."""

import random
from typing import Any

from msgspec.structs import replace

from ziggurat.agents.flow import Flow, flow
from ziggurat.calls.step import step
from ziggurat.core.entries import JournalEntry, Opened
from ziggurat.core.errors import NotRepeatable
from ziggurat.runs.local import runs_of

Tree = tuple[Any, ...]


def tree(chance: random.Random, depth: int = 3) -> Tree:
    """Return a random tree: a kind, and its parts."""
    kind = chance.choice(("step", "step", "once", "fail", "sequence", "handled", "loop") if depth else ("step", "once"))
    if kind in ("step", "once", "fail"):
        return kind, chance.choice("abc")
    return kind, *(tree(chance, depth - 1) for _ in range(chance.randint(1, 3)))


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
            self.made.append(f"once {what}")
            return what

        @step
        async def fail(what: str) -> str:
            self.made.append(f"fail {what}")
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
        said: list[str] = []
        try:
            for part in parts:
                said.append(await self.run(part))
        except Exception as error:
            if kind != "handled":
                raise
            said.append(f"handled {error}")
        return f"{kind}({', '.join(said)})"

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
