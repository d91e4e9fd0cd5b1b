"""Tests of the tree of a run: what it shows follows from the record, and its drawings can be broken by no text."""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from tests.teams.patterns import ALONE, NESTED, built
from tests.teams.test_everywhere import ids, worker
from ziggurat import Agent, Approve, Context, Deny, Middleware, Modify, Runnable, Usage, tool
from ziggurat.agents import Answer
from ziggurat.core.path import parent_of
from ziggurat.errors import Denied
from ziggurat.flows import ask, event, flow, sleep
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import JournalEntry
from ziggurat.messages import ToolCall, tool_call
from ziggurat.messages.model import Effect
from ziggurat.messages.usage import sum_of
from ziggurat.observe.tree import RunTree, run_tree
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

TEXTS = (
    "<script>alert(1)</script>",
    '"];click n0 href "javascript:alert(1)"',
    "</details></div>",
    "\x1b[2J\u202e",
    "&lt;",
)


def note(text: str = "") -> str:
    """Note a text."""
    return text


async def recorded(agent: Runnable, prompt: str = "go") -> Sequence[JournalEntry]:
    """Run an agent, and return the record."""
    await agent.run(prompt, run_id="r-1")
    return LocalJournal.load(await agent.record("r-1")).entries


def check(tree: RunTree) -> None:
    """Check what holds for every tree."""
    seen: dict[str, int] = {"": -1}
    for node in tree.nodes:
        assert node.path not in seen
        assert node.depth == seen[parent_of(node.path)] + 1
        seen[node.path] = node.depth
        assert node.began is None or node.ended is None or node.began <= node.ended


def check_drawings(tree: RunTree) -> None:
    """Check that no text of a run changes what is drawn."""
    assert len(tree.text().splitlines()) == len(tree.nodes)
    for line in tree.mermaid().splitlines():
        label = re.sub(r'"[^"]*"', "", line)
        assert re.fullmatch(r"[\w\s\[\](){}|>,:#.=;-]*", label), line
        assert "click" not in label
        assert "href" not in label


@pytest.mark.parametrize("case", ALONE + NESTED[::4], ids=ids)
async def test_it_shows_what_waits_and_how_the_run_ended(case: Sequence[str]) -> None:
    team = built(case, worker([], approval=True), store=InMemoryStore())
    run = await team.run("go", run_id="r-1")
    for _ in range(40):
        tree = await team.tree("r-1")
        check(tree)
        parts = {parent_of(node.path) for node in tree.nodes}
        waiting = {node.path for node in tree.nodes if node.state == "waiting" and node.path not in parts}
        if not run.pending:
            break
        assert {item.path for item in run.pending} <= waiting
        assert tree.nodes[0].state == "waiting"
        run = await team.resume("r-1", {item.id: Approve() for item in run.pending})
    assert not waiting
    assert tree.status == "Completed"
    assert tree.nodes[0].state == "done"
    assert "running" not in {node.state for node in tree.nodes}
    assert sum_of(Usage(), *(node.usage for node in tree.nodes if node.usage is not None)) == run.usage
    check_drawings(tree)


@pytest.mark.parametrize("case", ALONE + NESTED[::8], ids=ids)
async def test_while_a_run_goes_on_it_is_a_part_of_what_it_is_afterwards(case: Sequence[str]) -> None:
    team = built(case, worker(), store=InMemoryStore())
    entries = await recorded(team)
    paths = [node.path for node in run_tree(entries).nodes]
    for length in range(1, len(entries) + 1):
        tree = run_tree(entries[:length])
        check(tree)
        known = {node.path for node in tree.nodes}
        assert [node.path for node in tree.nodes] == [path for path in paths if path in known]
        if tree.nodes and tree.status == "running":
            assert tree.nodes[0].state in ("running", "done")


async def test_hostile_texts_are_shown_and_never_interpreted() -> None:
    async def act(text: str) -> str:
        """Act."""
        if "details" in text:
            raise ValueError(text)
        return text

    for text in TEXTS:
        model = ScriptedModel(tool_call("act", text=text), tool_call(text, text=text), text)
        agent = Agent(model, name=text if text.isprintable() else "plain", tools=[act], store=InMemoryStore())
        tree = run_tree(await recorded(agent, text))
        check_drawings(tree)
        assert text.isprintable() or text not in tree.text()


async def test_a_failed_run_shows_where_it_failed() -> None:
    agent = Agent(ScriptedModel(tool_call("note"), ConnectionError("unplugged")), tools=[note], store=InMemoryStore())
    tree = run_tree(await recorded(agent))
    failed = [node.path for node in tree.nodes if node.state == "failed"]
    assert failed == ["agent", "agent/step-2", "agent/step-2/model"]
    assert "unplugged" in tree.text()


def test_a_long_run_takes_time_in_proportion_to_its_length() -> None:
    def record(steps: int) -> list[JournalEntry]:
        model = ScriptedModel(*[tool_call("note", text="x")] * steps, "done")
        store = InMemoryStore()

        async def entries() -> Sequence[JournalEntry]:
            agent = Agent(model, tools=[note], max_steps=steps + 2, store=store)
            return await recorded(agent)

        return list(asyncio.run(entries()))

    few, many = run_tree(record(10)), run_tree(record(200))
    assert len(many.nodes) - len(few.nodes) == 3 * 190


@pytest.mark.parametrize("effect", ["none", "repeatable", "once"])
@pytest.mark.parametrize("changed", [{"text": "other"}, '{"text": "other"}'], ids=str)
async def test_a_call_is_shown_with_the_arguments_that_ran(effect: Effect, changed: Any) -> None:
    class Changes(Middleware):
        async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall | None:
            return tool_call("note", text="changed") if "asked" in call.arguments else None

    given = tool(approval=True, effect=effect)(note)
    for middleware in ([], [Changes()]):
        model, store = ScriptedModel(tool_call("note", text="asked"), "done"), InMemoryStore()
        agent = Agent(model, tools=[given], middleware=middleware, store=store)
        run = await agent.run("go", run_id="r")
        await agent.resume("r", {run.pending[0].id: Modify(changed)})
        [node] = [node for node in (await agent.tree("r")).nodes if node.kind == "tool"]
        assert node.text == 'note(text="other") → other'


async def test_a_wait_that_is_over_is_done_and_shows_what_came() -> None:
    @flow(store=InMemoryStore())
    async def waits() -> str:
        with suppress(Denied):
            await ask("Which one?")
        await sleep(seconds=0)
        await event("paid", int)
        return await ask("Which?")

    run = await waits.run(run_id="r")
    run = await waits.resume("r", {run.pending[0].id: Deny("neither")})
    await waits.attach("r").send("paid", 7)
    run = await waits.resume("r")
    assert [(node.state, node.text[:6]) for node in (await waits.tree("r")).nodes[1:]] == [
        ("failed", '"neith'), ("done", ""), ("done", "7"), ("waiting", "waits "),
    ]  # fmt: skip
    await waits.resume("r", {run.pending[0].id: Answer("this")})
    assert [(node.state, node.text) for node in (await waits.tree("r")).nodes[1:]] == [
        ("failed", '"neither"'), ("done", ""), ("done", "7"), ("done", '"this"'),
    ]  # fmt: skip
