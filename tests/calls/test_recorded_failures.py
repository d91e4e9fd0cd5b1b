"""What a model is told of a failure is the same if its process is lost before that is on record."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stores import places
from tests.stores.mortal import MortalStore
from tests.stores.places import new_store
from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context
from ziggurat.core.errors import ServiceError, StoreError
from ziggurat.core.store import Store
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import tool_call
from ziggurat.models.scripted import ScriptedModel


@pytest.fixture(autouse=True, params=["memory", "sqlite", "file"])
def _in_a_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    with places.used(request.param, tmp_path):
        yield


class OwnError(Exception):
    """An error of the user."""


class OwnServiceError(ServiceError):
    """One of ours, named by the user."""


FAILURES: dict[str, Callable[[], Exception]] = {
    "ValueError: no": lambda: ValueError("no"),
    "KeyError: 'no'": lambda: KeyError("no"),
    "OwnError: no": lambda: OwnError("no"),
    "OwnError": OwnError,
    "no": lambda: OwnServiceError("no"),
    "ExceptionGroup: all (2 sub-exceptions); ValueError: no; OwnError: no": lambda: ExceptionGroup(
        "all", [ValueError("no"), OwnError("no")]
    ),
}


def _agent(failure: Callable[[], Exception], store: Store) -> Agent:
    async def fails(request: ModelRequest, ctx: Context) -> ModelResponse:
        raise failure()

    async def asks(request: ModelRequest, ctx: Context) -> ModelResponse:
        reply = "done" if len(request.messages) > 2 else tool_call("inner", input="x")
        return await ScriptedModel(reply)(request, ctx)

    return Agent(asks, tools=[Agent(fails, name="inner")], store=store)


@pytest.mark.parametrize("told", FAILURES)
def test_a_failure_is_told_as_it_was_wherever_the_process_was_lost(told: str) -> None:
    async def observed(lives: int) -> bool:
        """Run in a process that is lost at an append, and go on in another; return whether it was lost."""
        store = MortalStore(new_store(), lives)
        with suppress(StoreError):
            await _agent(FAILURES[told], store).run("go", run_id=f"r-{lives}")
        await store.inner.close()
        after = new_store()
        if await after.find(f"run:r-{lives}") is not None:
            run = await _agent(FAILURES[told], after).run("go", run_id=f"r-{lives}")
            assert (run.text, run.observations) == ("done", (told,))
        return store.dead

    async def main() -> None:
        lives = 1
        while await observed(lives):
            lives += 1
        assert lives > 5

    asyncio.run(main())
