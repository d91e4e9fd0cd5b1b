"""Ledger teams: who works, when a plan is made again, and how a manager's replies are read."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.hard_cases.support import through_json
from tests.teams.models import Answering
from tests.wrong import wrong
from ziggurat import Agent, ModelRequest, Runnable
from ziggurat.errors import InvalidArguments
from ziggurat.messages import stops
from ziggurat.stores import InMemoryStore
from ziggurat.teams import ledger_team
from ziggurat.teams.turns import LedgerProgress, progress_in

GO = {"done": False, "progress": True, "next": "ann", "instruction": "work"}
STUCK = {**GO, "progress": False}
DONE = {"done": True}


def managing(ledgers: Sequence[Any], **arguments: Any) -> tuple[Runnable, Agent, Agent]:
    """Return a team whose manager writes these ledgers, one after the other, the manager, and a member."""
    answers = iter(ledgers)

    def manage(request: ModelRequest) -> str:
        prompt = request.messages[-1].text
        if "JSON object" in prompt:
            ledger = next(answers)
            return ledger if isinstance(ledger, str) else json.dumps(ledger)
        return "final" if "is complete" in prompt else "new plan" if "no progress" in prompt else "plan"

    manager = Agent(Answering(manage), name="manager")
    ann = Agent(Answering("worked"), name="ann", description="Works.")
    return ledger_team(manager, ann, Agent(Answering("b"), name="ben"), **arguments), manager, ann


def spoken(run: Any) -> list[str]:
    return [message.text for message in run.messages[run.start :] if message.role == "assistant"]


async def test_the_manager_plans_delegates_and_answers() -> None:
    team, manager, ann = managing([GO, {**GO, "next": "ben"}, DONE])
    run = await team.run("task")
    assert spoken(run) == ["plan", "worked", "b", "final"]
    assert (run.text, run.agent, run.stop) == ("final", "manager", stops.Completed())
    shown = [message.text for message in wrong(ann.model).asked[0].messages]
    assert shown == ["task", "[manager] plan", "manager asks ann: work"]
    assert "- ann: Works.\n- ben" in wrong(manager.model).asked[0].messages[-1].text


async def test_without_progress_it_plans_again_and_in_the_end_stops() -> None:
    team, _, _ = managing([STUCK, STUCK, GO, DONE], max_stalls=1)
    assert spoken(await team.run("task")) == ["plan", "worked", "new plan", "worked", "final"]
    team, _, _ = managing([STUCK] * 9, max_stalls=1, max_plans=2)
    run = await team.run("task")
    assert (run.stop, spoken(run)) == (stops.LoopDetected("plan", 2), ["plan", "worked", "new plan", "worked"])
    team, _, _ = managing([GO] * 9, turns=2)
    assert (await team.run("task")).stop == stops.BudgetExceeded("turns", 2.0, 2.0)


async def test_a_reply_that_cannot_be_read_is_asked_for_again_and_then_is_no_progress() -> None:
    team, manager, _ = managing(["hm", {**GO, "next": "nobody"}, GO, DONE])
    assert spoken(await team.run("task")) == ["plan", "worked", "final"]
    assert "none of ann, ben" in wrong(manager.model).asked[3].messages[-1].text
    team, _, _ = managing(["hm"] * 3 + [DONE], max_stalls=0)
    assert spoken(await team.run("task")) == ["plan", "new plan", "final"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "prose",
        "{",
        "{}",
        "[1]",
        '{"done": "no"}',
        '{"done": false}',
        "{" * 100_000 + "}",
        '{"done":false,"next":3}',
    ],
)
def test_what_is_no_ledger_is_refused(text: str) -> None:
    with pytest.raises(InvalidArguments):
        progress_in(text, {"ann": 1})


def test_a_ledger_may_have_words_around_it() -> None:
    assert progress_in('Sure:\n```json\n{"done": true, "more": 1}\n```', {}) == LedgerProgress(True)


async def test_it_goes_on_after_a_failure_of_the_manager() -> None:
    store, down = InMemoryStore(), True

    def team(kept: InMemoryStore) -> Runnable:
        def manage(request: ModelRequest) -> Any:
            worked = any("worked" in message.text for message in request.messages)
            if "JSON object" not in request.messages[-1].text:
                return "final" if worked else "plan"
            if worked and down:
                return ConnectionError("down")
            return json.dumps(DONE if worked else GO)

        members = [Agent(Answering("worked"), name=name) for name in ("ann", "ben")]
        return ledger_team(Agent(Answering(manage), name="manager"), *members, store=kept)

    assert isinstance((await team(store).run("task", run_id="r-1")).stop, stops.Failed)
    down = False
    again = team(through_json(store, "r-1"))
    run = await again.resume("r-1", strict=True)
    assert spoken(run) == ["plan", "worked", "final"]
    assert (await again.replay("r-1")).messages == run.messages
