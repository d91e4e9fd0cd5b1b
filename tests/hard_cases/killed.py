"""A process that runs the first hard case until it waits for a person, and is killed there."""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.hard_cases.test_01_approval_deep_down import Process, World
from ziggurat.messages import stops
from ziggurat.stores.addresses import connect


class Deeds(list[str]):
    """What was done, in a file that outlives the process."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.read_text().splitlines() if path.exists() else [])
        self._path = path

    def append(self, deed: str) -> None:
        super().append(deed)
        with self._path.open("a") as file:
            file.write(deed + "\n")
            file.flush()
            os.fsync(file.fileno())


def process_of(url: str, around: str, deeds: Path) -> tuple[World, Process]:
    """Make what one process makes: a world that remembers, and the agents in it."""
    world = World()
    world.done = Deeds(deeds)
    return world, Process(world, around, connect(url))  # type: ignore[arg-type]


def main(url: str, around: str, deeds: str) -> None:
    """Run until the run waits, and die."""
    _, process = process_of(url, around, Path(deeds))
    run = asyncio.run(process.agent.run("go", run_id="r"))
    assert run.stop == stops.Suspended()
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(*sys.argv[1:])
