"""The labels of a run are checked where they are passed, before anything is written or leased."""

import asyncio
from typing import Any

import pytest

from tests.stores.records import ids_of
from ziggurat.agents.agent import Agent
from ziggurat.core.errors import ConfigurationError
from ziggurat.models.scripted import ScriptedModel
from ziggurat.stores.local import LocalLogs

WRONG: list[dict[Any, Any]] = [{"": 1}, {"a\nb": 1}, {3: "x"}, {"team": object()}, {"team": [{"deep": object()}]}]


@pytest.mark.parametrize("labels", WRONG, ids=["empty", "line", "number", "object", "deep object"])
@pytest.mark.parametrize("stored", [True, False], ids=["stored", "local"])
def test_what_cannot_be_a_label_is_refused_by_every_verb(labels: dict[str, Any], stored: bool) -> None:
    async def go() -> None:
        store = LocalLogs()
        agent = Agent(ScriptedModel(always="done"), store=store if stored else None)
        for begin in (agent.run, agent.stream, agent.start):
            with pytest.raises(ConfigurationError, match=r"label"):
                begin("go", run_id="r", session="alice", labels=labels)
        assert ids_of(store) == []
        if stored:
            await agent.run("go", run_id="r")
            with pytest.raises(ConfigurationError, match="label"):
                await agent.fork("r", 1, new_id="f", labels=labels)
            assert ids_of(store) == ["r"]

    asyncio.run(go())
