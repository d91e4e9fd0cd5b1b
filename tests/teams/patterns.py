"""Every pattern of a team around one member of its own, so that what holds for all is tested for all."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.samples import sample
from tests.teams.models import Answering
from ziggurat import Agent, ModelRequest, Runnable, ToolCall
from ziggurat.messages import tool_call
from ziggurat.teams import (
    background,
    debate,
    group_chat,
    handoffs,
    ledger_team,
    majority,
    mesh,
    parallel,
    ring,
    sequential_handoff,
    star,
    swarm,
)

Build = Callable[..., Runnable]


def member(name: str, reply: Any, **arguments: Any) -> Agent:
    """Return an agent whose model gives this reply, or that of a function of the request."""
    return Agent(Answering(reply), name=name, **arguments)


def shown(agent: Any, number: int = -1) -> list[str]:
    """Return the texts that the model of a member was shown."""
    return [message.text for message in agent.model.asked[number].messages]


def handing(worker: Runnable, **arguments: Any) -> Runnable:
    """Hand over to the worker in every turn but its own."""

    def call(request: ModelRequest) -> ToolCall:
        return tool_call(f"handoff_to_{worker.name}", reason="yours")

    return handoffs(member("triage", call), worker, next_turn="first", **arguments)


def in_sequence(worker: Runnable, **arguments: Any) -> Runnable:
    return handoffs(member("writer", "draft"), worker, policy=sequential_handoff(), next_turn="first", **arguments)


def in_parallel(worker: Runnable, **arguments: Any) -> Runnable:
    return parallel(member("leader", "together"), member("helper", "helped"), worker, **arguments)


def by_majority(worker: Runnable, **arguments: Any) -> Runnable:
    return majority(worker, member("helper", "helped"), member("other", "sent"), **arguments)


def in_debate(worker: Runnable, **arguments: Any) -> Runnable:
    return debate(worker, member("opponent", "0.4, no"), moderator=member("moderator", "so be it"), **arguments)


def in_swarm(worker: Runnable, **arguments: Any) -> Runnable:
    return swarm(worker, member("helper", "helped"), split=lambda text: ["one", "two", "three"], **arguments)


def in_star(worker: Runnable, **arguments: Any) -> Runnable:
    return star(member("leader", "together"), member("helper", "helped"), worker, rounds=2, **arguments)


def in_mesh(worker: Runnable, **arguments: Any) -> Runnable:
    return mesh(worker, member("helper", "helped"), rounds=2, **arguments)


def in_ring(worker: Runnable, **arguments: Any) -> Runnable:
    return ring(member("helper", "helped"), worker, leader=member("leader", "together"), rounds=2, **arguments)


def in_chat(worker: Runnable, **arguments: Any) -> Runnable:
    return group_chat(member("guest", "hello"), worker, turns=4, **arguments)


def with_a_manager(worker: Runnable, **arguments: Any) -> Runnable:
    def manage(request: ModelRequest) -> str:
        if "JSON object" not in request.messages[-1].text:
            return "managed"
        asked = any(f"asks {worker.name}" in message.text for message in request.messages)
        return '{"done":true}' if asked else f'{{"done":false,"next":"{worker.name}","instruction":"go"}}'

    return ledger_team(member("manager", manage), member("helper", "helped"), worker, **arguments)


def in_background(worker: Runnable, **arguments: Any) -> Runnable:
    """Start the worker and a helper in each turn, and wait for both."""

    def lead(request: ModelRequest) -> str | list[ToolCall]:
        last = request.messages[-1]
        if last.role != "tool":
            return [tool_call(f"start_{worker.name}", task="go"), tool_call("start_helper", task="help")]
        return "joined" if last.tool_results[0].name == "join_members" else [tool_call("join_members")]

    return background(member("leader", lead), member("helper", "helped"), worker, **arguments)


PATTERNS: dict[str, Build] = {
    "handing": handing,
    "in_sequence": in_sequence,
    "in_parallel": in_parallel,
    "by_majority": by_majority,
    "in_debate": in_debate,
    "in_swarm": in_swarm,
    "in_star": in_star,
    "in_mesh": in_mesh,
    "in_ring": in_ring,
    "in_chat": in_chat,
    "with_a_manager": with_a_manager,
    "in_background": in_background,
}
NAMES = list(PATTERNS)
ALONE: list[tuple[str, ...]] = [(name,) for name in NAMES]
NESTED: list[tuple[str, ...]] = [
    (NAMES[at], NAMES[(at + 1) % len(NAMES)], NAMES[(at + 3) % len(NAMES)]) for at in range(len(NAMES))
]
EVERY = ALONE + NESTED
CASES = ALONE + sample(NESTED, 4)


def built(patterns: Sequence[str], worker: Runnable, **arguments: Any) -> Runnable:
    """Return teams in one another, the first outermost, with a worker in the innermost; the root gets the arguments."""
    team = worker
    for depth, pattern in reversed(list(enumerate(patterns))):
        team = PATTERNS[pattern](team, name=f"team{depth}", **(arguments if depth == 0 else {}))
    return team
