import asyncio

import pytest

from ziggurat import Agent, ConfigurationError, Usage
from ziggurat.errors import ModelError
from ziggurat.middleware import UsageAccounting, UsageLedger
from ziggurat.models import ScriptedModel
from ziggurat.tools import tool_call

COST = Usage(input=10, output=5, requests=1)


def look(fail: bool = False) -> str:
    """Look."""
    if fail:
        raise ValueError("no")
    return "x"


def test_sums_by_model_agent_and_tool_over_depths_and_runs() -> None:
    accounts = UsageLedger()
    small = ScriptedModel(
        tool_call("look"), tool_call("look", fail=True), "seen", name="small", usage=COST, per_run=True
    )
    inner = Agent(small, tools=[look], name="inner")
    large = ScriptedModel(tool_call("inner", input="go"), "done", name="large", usage=COST, per_run=True)
    agent = Agent(large, tools=[inner], name="outer", middleware=[UsageAccounting(accounts)])
    runs = [asyncio.run(agent.run("go")) for _ in range(2)]
    assert accounts.models == {"small": COST * 6, "large": COST * 4}
    assert accounts.total == runs[0].usage + runs[1].usage
    assert accounts.agents == {"inner": COST * 6, "outer": COST * 10}
    assert accounts.runs == {"inner": 2, "outer": 2}
    assert accounts.tools == {"look": 4, "inner": 2}
    assert accounts.tool_errors == {"look": 2}


def test_failed_calls_count_and_answers_from_the_record_do_not() -> None:
    accounts = UsageLedger()
    error = ModelError("no", kind="invalid_request")
    error.usage = COST
    model = ScriptedModel(tool_call("look"), error, "done", usage=COST, name="m")
    agent = Agent(model, tools=[look], middleware=[UsageAccounting(accounts)])
    run = asyncio.run(agent.run("go"))
    assert accounts.models == {"m": COST, "(failed)": COST}
    again = asyncio.run(agent.resume(run.id))
    assert again.text == "done"
    assert accounts.models == {"m": COST * 2, "(failed)": COST}
    assert accounts.tools == {"look": 1}


def test_sums_need_accounts() -> None:
    with pytest.raises(ConfigurationError, match="accounts"):
        UsageAccounting(3)  # type: ignore[arg-type]
