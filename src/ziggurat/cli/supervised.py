"""Workers, and a server beside them, under a supervisor until a signal to end."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ziggurat.agents.runnable import Runnable
from ziggurat.agents.schedule import Schedule
from ziggurat.agents.worker import Worker, in_one_process
from ziggurat.cli.agents import agent_of, in_store
from ziggurat.cli.load import load_any
from ziggurat.cli.options import AgentOptions
from ziggurat.cli.outcome import COMPLETED, INTERRUPTED
from ziggurat.cli.terminal import note
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.tasks import finished
from ziggurat.runtime.supervisor import Child, Supervisor

if TYPE_CHECKING:
    from uvicorn import Server

MakeServer = Callable[[Callable[[], None]], "Server"]
"""Makes a server, which is to call the given function when it listens."""

RESTARTS = 5  # how often workers are started again within a minute; after more the program ends with an error


def loaded_all(specs: Sequence[str], store: str | None) -> tuple[dict[str, Runnable[Any]], dict[str, list[Schedule]]]:
    """Return the agents named by ``file.py:name``, also those of schedules, in their store, and the schedules."""
    runnables, schedules = dict[str, Runnable[Any]](), dict[str, list[Schedule]]()
    named: dict[str, object] = {}
    for spec in specs:
        loaded = load_any(spec, "agent or schedule", Schedule)
        if isinstance(loaded, Schedule):
            runnable = runnables.setdefault(loaded.runnable.name, in_store(loaded.runnable, store))
            schedules.setdefault(runnable.name, []).append(loaded.with_store(runnable.store))
        else:
            runnable = agent_of(AgentOptions(agent=spec), store)
            if named.setdefault(runnable.name, loaded) is not loaded:
                raise ConfigurationError(f"{spec}: another one is named {runnable.name!r}, too; give one another name")
            runnables.setdefault(runnable.name, runnable)
    return runnables, schedules


class _Server:
    def __init__(self, make: MakeServer, then: Callable[[], None]) -> None:
        self._make = make
        self._then = then
        self._server: Server | None = None

    async def serve(self, ready: Callable[[], None]) -> None:
        self._server = server = self._make(ready)
        try:
            await server.serve()
        except asyncio.CancelledError:
            server.force_exit = True
            await finished(server.shutdown())
            raise
        finally:
            self._then()

    def drain(self) -> None:
        if self._server is not None:
            self._server.should_exit = True


async def supervised(workers: Sequence[Worker[Any]], grace: float, make_server: MakeServer | None = None) -> int:
    """Run workers, started again if they fail, and a server, until it ends or a signal comes; a second ends all."""
    in_one_process(workers)
    signalled = False

    def drain() -> None:
        for worker in workers:
            worker.drain()
        for server in servers:
            server.drain()

    def stop() -> None:
        nonlocal signalled
        note(f"draining: runs have {grace:g} s to end; a second signal gives them back at once")
        drain()
        if signalled:
            working.cancel()
        signalled = True

    servers = [] if make_server is None else [_Server(make_server, drain)]
    supervisor = Supervisor(
        [
            *(Child("server", each.serve, "never", None, significant=True, signals=True) for each in servers),
            *(Child(repr(each), each.run, "on_failure", None, significant=True) for each in workers),
        ],
        auto_shutdown="all_significant",
        max_restarts=RESTARTS,
        period=60.0,
        backoff=lambda restarts: min(2.0 ** (restarts - 1) - 1.0, 10.0),
    )
    working = asyncio.ensure_future(supervisor.run())
    with suppress(NotImplementedError):  # where the event loop takes no signals, Ctrl-C cancels
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        await working
    except asyncio.CancelledError:
        if not signalled:
            raise
        return INTERRUPTED
    finally:
        for each in workers:
            await each.store.close()
    return COMPLETED
