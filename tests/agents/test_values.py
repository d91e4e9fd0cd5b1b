from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from msgspec import Struct
from pydantic import BaseModel, BeforeValidator

from ziggurat import Agent, AgentRun, tool
from ziggurat.errors import InvalidArguments
from ziggurat.flows import flow
from ziggurat.messages import decode_run, encode_run, stops, tool_call
from ziggurat.teams import majority
from ziggurat.testing import ScriptedModel


class City(Struct):
    name: str
    founded: date | None = None


@dataclass
class Town:
    name: str


class Village(BaseModel):
    name: Annotated[str, BeforeValidator(str.strip)]


@flow
async def count(name: str) -> dict[str, int]:
    return {name: len(name)}


@tool(approval=True)
async def pay() -> str:
    """Pay."""
    return "paid"


def _city(name: str = "a", kind: Any = City, **fields: Any) -> Agent[Any]:
    return Agent(ScriptedModel(tool_call("final_answer", name="Ur", **fields)), name=name, output=kind)


TOWN = tool_call("final_answer", value={"type": "Town", "name": "Ur"})
RUNS: dict[str, tuple[Callable[[], AgentRun[Any]], Any]] = {
    "text": (lambda: Agent(ScriptedModel("hi")).run_sync("go"), str),
    "struct": (lambda: _city(founded="1922-01-01").run_sync("go"), City),
    "dataclass": (lambda: _city(kind=Town).run_sync("go"), Town),
    "pydantic": (lambda: _city(kind=Village).run_sync("go"), Village),
    "union": (lambda: Agent(ScriptedModel(TOWN), output=City | Town).run_sync("go"), City | Town),
    "flow": (lambda: count.run_sync("Ur"), dict[str, int]),
    "team": (lambda: majority(_city(), _city("b")).run_sync("go"), City),
    "waiting": (lambda: Agent(ScriptedModel(tool_call("pay")), tools=[pay], output=City).run_sync("go"), City),
    "failed": (lambda: Agent(ScriptedModel(ValueError("no")), output=City).run_sync("go"), City),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_read_back_equal(name: str) -> None:
    make, kind = RUNS[name]
    run = make()
    again = decode_run(encode_run(run), kind)
    assert again == run
    assert encode_run(again) == encode_run(run)
    assert run.has_final_answer == (name not in ("waiting", "failed"))
    if run.has_final_answer:
        assert type(again.output) is type(run.output)


@pytest.mark.parametrize(("data", "kind"), [(b"", str), ("{}", str), (encode_run(RUNS["struct"][0]()), int)])
def test_what_is_no_run_or_has_another_output_is_refused(data: bytes | str, kind: Any) -> None:
    with pytest.raises(InvalidArguments, match="encode_run"):
        decode_run(data, kind)


async def test_an_output_that_is_not_there_ends_a_flow_as_the_run_that_has_none() -> None:
    late = Agent(ScriptedModel(always=tool_call("look")), tools=[_look], max_steps=1, name="late")

    @flow
    async def asking() -> str:
        return (await late.run("go")).output.upper()

    @flow
    async def careful() -> str:
        run = await late.run("go")
        return run.output if run.has_final_answer else run.error or ""

    run = await asking.run()
    assert run.stop == stops.BudgetExceeded("steps", 1, 1)
    assert (await careful.run()).output == "the steps limit of 1 is reached (1 used)"


async def _look() -> str:
    return "x"
