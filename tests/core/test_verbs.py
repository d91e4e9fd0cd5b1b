"""A verb that is not awaited says so, whatever it belongs to, and is a coroutine for all that takes one."""

import asyncio
import gc
import warnings
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest
from msgspec import Struct

from ziggurat import Agent, Runnable
from ziggurat.flows import flow
from ziggurat.plans import Graph
from ziggurat.teams import ring
from ziggurat.testing import ScriptedModel


class State(Struct):
    topic: str = ""


def _graph() -> Runnable[Any]:
    graph = Graph(State)

    @graph.node(writes="topic")
    async def title(state: State) -> str:
        return "walls"

    return graph.build("report")


@flow
async def greet() -> str:
    return "Hello."


def _agent(name: str = "one") -> Agent[str]:
    return Agent(ScriptedModel(lambda request: "done"), name=name)


KINDS: dict[str, Callable[[], Runnable[Any]]] = {
    "agent": _agent,
    "team": lambda: ring(_agent(), _agent("two"), rounds=1),
    "flow": lambda: greet,
    "graph": _graph,
    "layered": lambda: _agent().layered(),
}
INPUT: dict[str, Any] = {"flow": None, "graph": State()}
VERBS: dict[str, Callable[[Runnable[Any], Any], Coroutine[Any, Any, Any]]] = {
    "run": lambda agent, prompt: agent.run(prompt),
    "resume": lambda agent, prompt: agent.resume("r"),
    "replay": lambda agent, prompt: agent.replay("r"),
    "fork": lambda agent, prompt: agent.fork("r", 1),
    "submit": lambda agent, prompt: agent.submit(prompt),
    "recover": lambda agent, prompt: agent.recover(),
    "pending": lambda agent, prompt: agent.pending(),
    "tree": lambda agent, prompt: agent.tree("r"),
    "result": lambda agent, prompt: agent.attach("r").result(),
    "status": lambda agent, prompt: agent.attach("r").status(),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_attribute_before_the_await_names_the_verb(kind: str, verb: str) -> None:
    coroutine: Any = VERBS[verb](KINDS[kind](), INPUT.get(kind, "hi"))
    with pytest.raises(AttributeError) as caught:
        _ = coroutine.output
    for each in ("await", f"{verb}(", "output", *(["run_sync"] if verb == "run" else [])):
        assert each in str(caught.value)
    assert verb in repr(coroutine)
    del caught
    coroutines = [coroutine]
    del coroutine
    with pytest.warns(RuntimeWarning, match=verb):
        coroutines.clear()


async def _awaited(made: Coroutine[Any, Any, Any]) -> Any:
    return await made


async def _gathered(made: Coroutine[Any, Any, Any]) -> Any:
    return (await asyncio.gather(made))[0]


async def _wrapped(made: Coroutine[Any, Any, Any]) -> Any:
    return await asyncio.wait_for(asyncio.shield(made), 5)


@pytest.mark.parametrize("wait", [_awaited, _gathered, _wrapped, asyncio.create_task])
@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_a_coroutine_for_all_that_takes_one(
    kind: str, wait: Callable[[Coroutine[Any, Any, Any]], Awaitable[Any]]
) -> None:
    assert asyncio.iscoroutine(made := KINDS[kind]().run(INPUT.get(kind, "hi")))
    assert (await wait(made)).error is None


def test_one_that_is_closed_is_not_missed() -> None:
    with warnings.catch_warnings(action="error"):
        _agent().run("hi").close()
        gc.collect()
    assert asyncio.run(_agent().run("hi")).text == "done"


async def test_a_handle_has_no_attribute_of_its_run() -> None:
    handle: Any = _agent().start("hi")
    with pytest.raises(AttributeError, match=r"await handle.result\(\)"):
        _ = handle.output
    assert (await handle.result()).text == "done"
