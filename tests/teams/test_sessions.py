"""Teams in a session: whoever speaks knows the turns before, and a sequence begins anew with each question."""

import json
from typing import Any

import pytest

from tests.samples import pairs, sample
from tests.teams.models import Answering, Reply
from tests.teams.patterns import ALONE, EVERY, built, member
from ziggurat import Agent, AgentRequest, ModelRequest, Runnable, user
from ziggurat.agents import Environment
from ziggurat.errors import JournalCorrupt
from ziggurat.journal.entries import ConversationReader
from ziggurat.messages import Transcript, tool_call
from ziggurat.messages.conversation import made_of
from ziggurat.middleware import Redaction
from ziggurat.stores import InMemoryStore, Session
from ziggurat.teams import composite_handoff, explicit_handoff, handoffs, majority, sequential_handoff, swarm
from ziggurat.testing import HandClock

KNOWING = [pattern for pattern in ALONE if pattern not in (("in_background",), ("with_a_manager",))]
"""A member in the background sees its task only, which its leader writes; the manager asks the worker in one turn."""


@pytest.mark.parametrize("pattern", KNOWING)
async def test_a_member_knows_what_was_said_in_the_turns_before(pattern: tuple[str, ...]) -> None:
    model = Answering("sent")
    team = built(pattern, Agent(model, name="worker"), store=InMemoryStore())
    await team.run("My name is Ada.", session="s")
    before = len(model.asked)
    await team.run("What is my name?", session="s")
    for request in model.asked[before:]:
        texts = [message.text for message in request.messages]
        assert "My name is Ada." in texts
        assert len(texts) == len({id(message) for message in request.messages})
    assert len(model.asked) > before


async def test_each_member_sees_the_others_turns_of_before_and_not_those_of_now() -> None:
    models = [Answering(f"{name}'s words") for name in ("ann", "ben")]
    ann, ben = (Agent(model, name=name) for name, model in zip(("ann", "ben"), models, strict=True))
    for team in (
        majority(ann, ben, store="memory:"),
        swarm(ann, ben, split=lambda text: [text, text], store="memory:"),
    ):
        await team.run("one", session="s")
        await team.run("two", session="s")
        assert "[ben] ben's words" in models[0].shown
        assert models[0].shown.count("[ben] ben's words") == 1
        assert models[0].shown[-1] == "two"


@pytest.mark.parametrize(("pattern", "limit", "masked"), sample(pairs(EVERY, [None, 5], ["", "sesame"]), 8))
async def test_a_record_has_what_each_member_was_shown(
    pattern: tuple[str, ...], limit: int | None, masked: str
) -> None:
    """In the same store as its session, a run names what it begins with; elsewhere it has all of it."""
    records: list[list[dict[str, Any]]] = []
    for elsewhere in (False, True):
        store = InMemoryStore()
        middleware = [Redaction(masked)] if masked else []
        team = built(pattern, Agent(Answering("sesame\n[ann] x"), name="worker"), store=store, middleware=middleware)
        chat = Session("s", InMemoryStore() if elsewhere else store, limit=limit)
        for number in range(3):
            environment = Environment(clock=HandClock(auto=True), ids=lambda: "id")
            await team.run(f"sesame {number}?", session=chat, run_id=f"r{number}", environment=environment)
            lines = map(json.loads, (await team.record(f"r{number}")).splitlines())
            records.append([{**line, "terms": None} for line in lines])
    assert records[:3] == records[3:]


async def test_what_a_member_has_seen_is_not_changed_without_notice() -> None:
    store = InMemoryStore()
    team = majority(member("ann", "a"), member("ben", "b"), store=store)
    for number in range(2):
        await team.run(f"question {number}", session="s", run_id=f"r{number}")
    line = next(row.data for row in await store.read("run:r1") if b'"made_by":' in row.data)
    reader = ConversationReader(AgentRequest, Transcript.of(user("other")), made_of)
    for changed in (line, line.replace(b'"replies"', b'"whispers"')):
        with pytest.raises(JournalCorrupt):
            reader.entry(changed)


def _seen(name: str, order: list[str]) -> Agent:
    def reply(request: ModelRequest) -> Reply:
        order.append(name)
        return f"{name}'s words"

    return member(name, reply)


@pytest.mark.parametrize("failing", ["", "ben"])
async def test_a_sequence_begins_anew_with_each_question(failing: str) -> None:
    order: list[str] = []
    stages = [_seen(name, order) for name in ("ann", "ben", "cem")]
    if failing:
        stages[1] = member("ben", ConnectionError("gone"))
    team = handoffs(*stages, policy=sequential_handoff(), store=InMemoryStore())
    await team.run("one", session="s")
    once = [*order]
    await team.run("two", session="s")
    assert order == [*once, *once]


async def test_after_a_sequence_the_first_of_all_begins() -> None:
    order: list[str] = []

    def triage(request: ModelRequest) -> Reply:
        order.append("triage")
        return tool_call("handoff_to_writer")

    policy = composite_handoff(explicit_handoff("writer", source="triage"), sequential_handoff("writer", "editor"))
    members: list[Runnable] = [member("triage", triage), _seen("writer", order), _seen("editor", order)]
    team = handoffs(*members, policy=policy, store=InMemoryStore())
    for _ in range(2):
        await team.run("go", session="s")
    assert order == ["triage", "writer", "editor"] * 2
