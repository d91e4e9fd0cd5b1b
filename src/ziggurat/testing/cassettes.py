"""Cassettes: runs recorded once and replayed in every test, without network or API key."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, get_args

from ziggurat.agents.runnable import Runnable
from ziggurat.core.codec import as_type
from ziggurat.core.errors import ConfigurationError, JournalMismatch
from ziggurat.core.event import Listener, difference
from ziggurat.core.settings import checked
from ziggurat.journal.entries import Opened
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.message import Message
from ziggurat.messages.prompts import Prompt, request_of
from ziggurat.messages.recorded import first_difference
from ziggurat.runs.options import Deps, Live
from ziggurat.runs.runs import runs_of
from ziggurat.stores.local import InMemoryStore
from ziggurat.tools.approval import Approvals

RECORD = "ZIGGURAT_RECORD"
"""The environment variable for when cassettes are recorded: ``always``, ``never``, or when ``missing``.

By default missing ones are recorded, but none if the variable ``CI`` is set.
"""

Recording = Literal["missing", "always", "never"]
_BROKEN = (stops.Failed, stops.Cancelled, stops.TimedOut)


async def replay_record(
    agent: Runnable,
    record: bytes | str,
    *,
    live: Live = "nothing",
    deps: Deps | None = None,
    listeners: Sequence[Listener] = (),
    approvals: Approvals | None = None,
) -> AgentRun:
    """Replay a record with an agent, as `Runnable.replay` does with a stored run.

    Args:
        agent: An agent with the name of the one in the record.
        record: JSON lines, as ``ziggurat export`` writes them.
        live: What is called: ``"nothing"``, ``"tools"`` or ``"models"``.
        deps: The dependencies for tools.
        listeners: Called with every event.
        approvals: Which calls a person must approve, if the run was given some.

    Raises:
        JournalMismatch: the agent behaves differently; the message names the path and shows the difference.
    """
    store = InMemoryStore()
    entries = LocalJournal.load(record.encode() if isinstance(record, str) else record).entries
    await runs_of(store).plant("record", agent.name, entries)
    return await Runnable(agent, name=agent.name, store=store).replay(
        "record", live=live, deps=deps, listeners=listeners, approvals=approvals
    )


class Cassette:
    """A file with the record of one run: recorded if it is missing, replayed if it exists::

        async def test_rain() -> None:
            run = await Cassette("tests/rain.jsonl").run(agent, "Rain in Paris?")
            assert "umbrella" in run.text

    Args:
        path: The file. Delete it, or set ``ZIGGURAT_RECORD=always``, to record it again.
        live: What is called during a replay: ``"nothing"``, or ``"tools"`` to test those.
        record: ``"missing"`` records if there is no file, ``"always"`` each time; ``"never"`` raises if there is none.
            By default as the variable ``ZIGGURAT_RECORD`` says; without it ``"never"`` where ``CI`` is set, else
            ``"missing"``.

    Raises:
        ConfigurationError: the file is missing, and is not to be recorded.
    """

    @checked
    def __init__(self, path: str | Path, *, live: Live = "nothing", record: Recording | None = None) -> None:
        self.path: Path = Path(path)
        self.live = live
        self.record = record

    async def run(
        self,
        agent: Runnable,
        prompt: Prompt,
        *,
        history: Sequence[Message] = (),
        deps: Deps | None = None,
        listeners: Sequence[Listener] = (),
    ) -> AgentRun:
        """Run an agent, or replay its record; takes the arguments of `Runnable.run`.

        Raises:
            JournalMismatch: the question or the agent's behaviour differs from the record; the message shows where.
            ConfigurationError: the file is missing, and recording is off.
        """
        if self._is_to_record():
            recorder, name = Runnable(agent, name=agent.name, store=InMemoryStore()), self.path.stem
            run = await recorder.run(
                prompt, history=history, deps=deps, listeners=listeners, run_id=name, detached=True
            )
            if not isinstance(run.stop, _BROKEN):  # a run that broke is not worth replaying
                self.path.parent.mkdir(parents=True, exist_ok=True)
                self.path.write_bytes(await recorder.record(name))
            return run
        data = self.path.read_bytes()
        opened = LocalJournal.load(data).entries[:1]
        request = request_of(prompt, history)
        recorded = as_type(opened[0].request, AgentRequest) if opened and isinstance(opened[0], Opened) else None
        if recorded is not None and recorded.fingerprint() != request.fingerprint():
            what, was, now = first_difference(recorded.messages, request.messages)
            raise JournalMismatch(f"first divergence in {self.path}: {what}\n{difference(was, now)}")
        return await replay_record(agent, data, live=self.live, deps=deps, listeners=listeners)

    def _is_to_record(self) -> bool:
        when = self.record or os.environ.get(RECORD) or ("never" if os.environ.get("CI") else "missing")
        if when not in get_args(Recording):
            raise ConfigurationError(f"{RECORD} is one of {', '.join(get_args(Recording))}; got {when!r}")
        if when == "never" and not self.path.exists():
            raise ConfigurationError(
                f"the cassette {self.path} is missing, and is not recorded where CI or {RECORD}=never is set: "
                "record it on your machine and commit it"
            )
        return when == "always" or not self.path.exists()
