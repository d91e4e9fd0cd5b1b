"""What a model is told of a failure when a process was lost."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.calls.samples import STORES, rows
from tests.stores.mortal import MortalStore
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Context, ModelRequest, ModelResponse, Runnable, tool
from ziggurat.core import Store
from ziggurat.errors import NotRepeatable, ServiceError, StoreError
from ziggurat.flows import flow, step
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

pytestmark = pytest.mark.usefixtures("place")


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


@pytest.mark.parametrize(("told", "place"), rows(FAILURES, STORES), indirect=["place"])
async def test_a_failure_is_told_as_it_was_wherever_the_process_was_lost(told: str) -> None:
    def check(run: AgentRun) -> None:
        assert (run.text, run.observations) == ("done", (told,))

    assert await _lost_everywhere(lambda store: _agent(FAILURES[told], store), check) > 5


async def _lost_everywhere(make: Callable[[Store], Runnable], check: Callable[[AgentRun], None]) -> int:
    """Run in a process that is lost at each append in turn, and go on in another; return how often one was lost."""
    lost = 0
    while True:
        run_id = f"r-{lost}"
        store = MortalStore(new_store(), lost + 1)
        with suppress(StoreError):
            await make(store).run("go", run_id=run_id)
        await store.inner.close()
        if not store.dead:
            return lost
        lost += 1
        after = new_store()
        if await after.find(f"run:{run_id}") is not None:
            check(await make(after).run("go", run_id=run_id))


def _paying_tool(store: Store) -> Runnable:
    @tool(effect="once")
    async def pay() -> str:
        return "paid"

    async def pays(request: ModelRequest, ctx: Context) -> ModelResponse:
        reply = request.messages[2].tool_results[0].text if len(request.messages) > 2 else tool_call("pay")
        return await ScriptedModel(reply)(request, ctx)

    return Agent(pays, tools=[pay], store=store)


def _paying_step(store: Store) -> Runnable:
    @step(effect="once")
    async def pay() -> str:
        return "paid"

    @flow(store=store)
    async def work(task: str) -> str:
        try:
            return await pay()
        except NotRepeatable as error:
            return str(error)

    return work


@pytest.mark.parametrize("make", [_paying_tool, _paying_step])
async def test_of_a_call_with_its_beginning_alone_on_record_no_cause_is_told(make: Callable[[Store], Runnable]) -> None:
    said: list[str] = []
    await _lost_everywhere(make, lambda run: said.append(run.text))
    unknown = {*said} - {"paid"}
    assert len(unknown) == 1
    assert "unknown" in unknown.pop()
