"""ServedAgents: the agents of a server, the runs that it drives, and what it knows of all runs in their stores."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.enter import parts_of
from ziggurat.core import errors
from ziggurat.core.codec import plain
from ziggurat.core.event import Listener
from ziggurat.journal.entries import JournalEntry
from ziggurat.journal.store import LogInfo, Store, session_log
from ziggurat.messages.agent import Decision
from ziggurat.messages.message import Message
from ziggurat.observe.metrics import Metrics
from ziggurat.runs.runs import runs_of
from ziggurat.serve.decisions import PendingRow, WaitRow
from ziggurat.serve.driving import Driver
from ziggurat.serve.rows import RunRow, RunRows, is_queued
from ziggurat.serve.sse import Closing
from ziggurat.serve.views import fork_place
from ziggurat.stores.addresses import shared
from ziggurat.stores.session import Session


class ServedAgents(Driver):
    def __init__(
        self,
        agents: Iterable[Runnable[Any]],
        store: str | Store | None,
        limit: int,
        grace: float = 0.0,
    ) -> None:
        super().__init__()
        self._common = shared("memory:" if store is None else store)
        self._own_stores = store is None
        self.agents: dict[str, Runnable[Any]] = {}
        self.kinds: dict[str, str] = {}
        for agent in agents:
            self.add(agent)
        self.limit = limit
        self.closing: Closing = Closing()
        self.grace = grace
        self._rows = RunRows()

    def add(self, agent: Runnable[Any]) -> None:
        if agent.name in self.agents:
            raise errors.ConfigurationError(f"two of the served agents are named {agent.name!r}; give one another name")
        own = agent
        while type(own) is Runnable and isinstance(own.inner, Runnable):  # as with_store() returns it
            own = own.inner
        self.kinds[agent.name] = type(own).__name__
        keeps = self._own_stores and runs_of(agent.store).keeps_ended
        self.agents[agent.name] = agent.with_store(agent.store if keeps else self._common)

    def admit(self) -> None:
        limit, running = 0 if self.closing.closed else self.limit, len(self._tasks)
        if running >= limit:
            text = "as many runs are driven here as may be; try again"
            raise errors.LimitExceeded("runs", limit, running, text, transient=True)

    def metrics(self) -> list[Metrics]:
        chains = [chain for agent in self.agents.values() if (chain := parts_of(agent).chain) is not None]
        members = [each for chain in chains for each in chain.middlewares if isinstance(each, Metrics)]
        return list({id(each): each for each in members}.values())

    def agent(self, name: str) -> Runnable[Any]:
        if name not in self.agents:
            raise errors.RunNotFound(f"there is no agent {name!r:.100} here; there are: {', '.join(self.agents)}")
        return self.agents[name]

    async def agent_of(self, run_id: str) -> tuple[Runnable[Any], LogInfo]:
        for store in self.stores():
            info = await store.find(f"run:{run_id}")
            if info is not None:
                return self.agent(info.agent), info
        reason = self.reason_of(run_id)  # of a mistake before anything was done, after which it is removed
        why = "" if reason is None else f" any more, as it could not begin: {reason}"
        raise errors.RunNotFound(f"there is no run {run_id!r:.150}{why}")

    async def newest_of(self, run_id: str) -> tuple[Runnable[Any], LogInfo]:
        """Do the same for a run or, if it has continued as new, the last run of its chain."""
        agent, info = await self.agent_of(run_id)
        return agent, await runs_of(agent.store).newest(run_id) or info

    def stores(self) -> list[Store]:
        return list({id(agent.store): agent.store for agent in self.agents.values()}.values())

    # -- what is started -----------------------------------------------------------------------------------------

    async def start(self, name: str, prompt: Any, given_id: str | None, **arguments: Any) -> str:
        agent, run_id = self.agent(name), given_id or self.environment.ids()
        known = given_id is not None and await agent.store.find(f"run:{run_id}") is not None
        try:
            await self.drive(agent, run_id, partial(agent.run, prompt, run_id=run_id, **arguments))
        except errors.IN_PROGRESS:  # another request would be refused with RunExists
            info = await agent.store.find(f"run:{run_id}") if known else None
            if info is None or not runs_of(agent.store).is_driven(info):
                raise
        return run_id

    async def resume(self, run_id: str, *listeners: Listener, decisions: Mapping[str, Decision] | None = None) -> None:
        agent, info = await self.newest_of(run_id)
        if decisions or info.id not in self._waiting:  # else whoever waits for it goes on with it
            await self.drive(agent, info.id, partial(agent.resume, info.id, decisions), listeners)

    async def decide(self, run_id: str, decisions: Mapping[str, Decision], *listeners: Listener) -> None:
        """Record decisions, and go on with the run if nothing else is to be decided."""
        agent, _ = await self.agent_of(run_id)
        await agent.attach(run_id).decide(decisions, environment=self.environment)
        status = await agent.attach(run_id).status()
        if not status.driven and not any(item.id not in decisions for item in status.pending if item.needs_decision):
            with suppress(*errors.IN_PROGRESS):  # the decisions have made it due, and another process was quicker
                await self.drive(agent, status.id, partial(agent.resume, status.id), listeners)

    async def cancel(self, run_id: str) -> bool:
        """Stop a run, whatever drives it; one that nobody drives ends at once. Return whether it had not ended."""
        agent, info = await self.newest_of(run_id)
        handle = agent.attach(info.id)
        done = await handle.cancel()
        if done and not (await handle.status()).driven:
            with suppress(*errors.IN_PROGRESS):
                await self.resume(info.id)
        return done

    async def drain(self) -> None:
        """Let runs end within the grace, and stop the others as if the process had ended: they can be recovered."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self.grace)
        left = self._tasks | {task: run_id for run_id, task in self._waiting.items()}
        for task, run_id in left.items():
            for store in self.stores():
                runs_of(store).withdraw(run_id)
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    # -- what is on record ---------------------------------------------------------------------------------------

    async def rows(
        self,
        *,
        agent: str | None = None,
        status: str | None = None,
        labels: Mapping[str, object] | None = None,
        before: float | None = None,
        search: str = "",
        session: str = "",
        limit: int = 50,
    ) -> tuple[list[RunRow], float | None]:
        """Return runs, those that changed last first, and the time before which there may be more."""
        headers: list[tuple[Store, LogInfo]] = []
        for store in self.stores():
            infos = await store.logs("run:", agent=agent, status=status, labels=labels, before=before, limit=limit)
            headers += [(store, info) for info in infos if info.agent in self.agents]
        headers = sorted(headers, key=lambda each: each[1].updated, reverse=True)[:limit]
        rows = [await self._rows.row(store, info) for store, info in headers]
        sought = search.casefold()
        fitting = [
            row
            for row in rows
            if sought in f"{row.run_id} {row.agent} {row.prompt} {row.labels}".casefold()
            and session in ("", row.session)
        ]
        return fitting, headers[-1][1].updated if len(headers) == limit else None

    def described(self) -> list[dict[str, str]]:
        return [
            {"name": name, "kind": self.kinds[name], "description": parts_of(agent).description or ""}
            for name, agent in self.agents.items()
        ]

    async def entries(self, run_id: str) -> Sequence[JournalEntry]:
        agent, _ = await self.agent_of(run_id)
        return (await runs_of(agent.store).read(run_id)).entries

    async def fork(self, run_id: str, number: int | None, prompt: str | None, new_id: str | None) -> str:
        agent, _ = await self.agent_of(run_id)
        place = 1 if number is None else fork_place(await self.entries(run_id), number, agent.name)
        fork_id = new_id or self.environment.ids()
        await self.drive(agent, fork_id, partial(agent.fork, run_id, place, prompt, new_id=fork_id))
        return fork_id

    async def conversation(self, session_id: str) -> list[Message]:
        for store in self.stores():
            if await store.find(session_log(session_id)) is not None:
                return await Session(session_id, store=store).get_messages()
        raise errors.RunNotFound(f"there is no session {session_id!r:.150}")

    async def detail(self, run_id: str) -> dict[str, Any]:
        agent, info = await self.agent_of(run_id)
        runs = runs_of(agent.store)
        while True:
            run = await self._rows.run(agent.store, info)
            # A handle goes on with the next run.
            goes_on = run is not None and info.status == "Continued"
            status: Any = run if goes_on else await agent.attach(run_id).status()
            _, later = await self.agent_of(run_id)
            if later.status == info.status:  # else the output is that of before
                break
            info = later
        driven = runs.is_driven(info)
        reason = None if driven or info.status not in ("running", "Suspended") else self.reason_of(run_id)
        shown = info.status if goes_on else "queued" if is_queued(info, driven=driven) else status.status
        interrupted = reason is not None and info.status == "running"
        return {
            **plain(await self._rows.row(agent.store, info)),
            "status": "interrupted" if interrupted else shown,
            "driven": driven,
            "next": info.next_id if info.status == "Continued" else None,
            "output": None if run is None else plain(run._output),
            "error": reason if reason is not None or run is None else run.error,
            "pending": [PendingRow.of(item) for item in status.pending if item.needs_decision],
            "waits": [WaitRow.of(item) for item in status.pending if not item.needs_decision],
            "usage": status.usage,
            "model_calls": status.model_calls,
            "tool_calls": status.tool_calls,
            "entries": info.count if goes_on else status.entries,
        }
