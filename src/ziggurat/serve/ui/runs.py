"""The runs that answer requests of user interfaces: started, continued with answers, and told."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.runnable import Runnable
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.core.path import parent_of
from ziggurat.journal.entries import Decided, Ended, JournalEntry
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import Decision
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.model import ModelRequest
from ziggurat.serve import narrated, narration
from ziggurat.serve.openai.client_request import with_client
from ziggurat.serve.requests import IN_PROGRESS, check_id
from ziggurat.serve.served import ServedAgents
from ziggurat.serve.ui.answers import asked_items, decision_of_answer

_NOTHING = ModelRequest(Transcript.of())


class UiRun(Struct, frozen=True):
    """A run that answers a request, and what of it is told; see `narrate`."""

    id: str
    agent: Runnable[Any]
    after: int = 0
    through: int = 0
    waits: bool = False

    def told(self) -> AsyncGenerator[narrated.Told, None]:
        return narration.narrate(self.agent, self.id, self.after, self.through, waits=self.waits)


async def start_run(
    agents: ServedAgents, name: str, content: ModelRequest, run_id: str, labels: Mapping[str, object]
) -> UiRun:
    """Start a run that answers a conversation; if the same one is in progress or has ended, return that."""
    agents.admit()
    agent = with_client(agents.agent(name), content)
    if not content.messages:
        raise ConfigurationError("messages: there is no message to answer")
    with suppress(*IN_PROGRESS):  # the run is followed
        run = partial(agent.run, history=content.messages, run_id=check_id(run_id), labels=labels)
        await agents.begin(run_id, run)
    return UiRun(run_id, agent)


async def continue_run(
    agents: ServedAgents, name: str, run_id: str, answers: Mapping[str, Any], content: ModelRequest = _NOTHING
) -> UiRun:
    """Go on with a run that waits for decisions, given by the ids of what waits, or of the calls that it is about.

    The same request again has no effect, and returns the same run from the same entry.
    """
    agents.admit()
    agent, info = await agents.agent_of(check_id(run_id))
    if info.agent != name:
        raise RunNotFound(f"there is no run {run_id!r} of the agent {name!r:.100}")
    entries = LocalJournal.load(await agent.record(run_id)).entries
    items = asked_items(entries)
    decisions: dict[str, Decision] = {}
    for item in items.values():
        about = (item.id, narrated.call_id(run_id, item.path), narrated.call_id(run_id, parent_of(item.path)))
        key = next((each for each in about if each in answers), None)
        if key is not None:
            decisions[item.id] = decision_of_answer(item, answers[key])
    if not decisions:
        raise ConfigurationError(f"the run {run_id} has nothing that waits and is answered here")
    decided = {entry.id: number for number, entry in enumerate(entries, 1) if isinstance(entry, Decided)}
    last = max(decided.get(each, len(entries)) for each in decisions)
    client = with_client(agent, replace(content, instructions=None))
    with suppress(*IN_PROGRESS):  # the run is followed
        await agents.begin(run_id, partial(client.run, run_id=run_id, decisions=decisions))
    return UiRun(run_id, agent, _suspended(entries[:last]))


async def whole_run(agent: Runnable[Any], run_id: str) -> UiRun:
    """Return a run, to be told from its beginning to the next end or wait."""
    entries = LocalJournal.load(await agent.record(run_id)).entries
    return UiRun(run_id, agent, 0, _suspended(entries[:-1]))


def _suspended(entries: Sequence[JournalEntry]) -> int:
    """Return the number of the last entry with which a run was suspended; 0 if there is none."""
    numbers = (number for number, entry in enumerate(entries, 1) if isinstance(entry, Ended))
    return max((number for number in numbers if cast("Ended", entries[number - 1]).stop == "Suspended"), default=0)
