"""An agent that is called as a tool takes a typed value: any type with named fields, or a function's parameters."""

import json
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, TypedDict

import pytest
from msgspec import Meta, Struct
from pydantic import BaseModel, Field

from tests.agents.support import assert_sendable, elsewhere
from tests.samples import sample
from ziggurat import Agent, Approvals, Approve, ConfigurationError, Context, Toolbox, ToolCall, stack
from ziggurat.agents import AGENT_INPUT
from ziggurat.layers.retry import timeout
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel


class Order(Struct):
    item: str
    amount: Annotated[int, Meta(ge=1)] = 1


@dataclass
class Trip:
    item: str
    amount: Annotated[int, Meta(ge=1)] = 1


class Model(BaseModel):
    item: str
    amount: int = Field(default=1, ge=1)


class Row(TypedDict):
    item: str
    amount: Annotated[int, Meta(ge=1)]


def order(item: str, amount: Annotated[int, Meta(ge=1)] = 1) -> None:
    """Order something.

    Args:
        item: What.
    """
    raise AssertionError("its parameters are used, it is not called")


INPUTS: list[tuple[Any, Any]] = [
    (Order, Order("tea", 2)),
    (Trip, Trip("tea", 2)),
    (Model, Model(item="tea", amount=2)),
    (Row, {"item": "tea", "amount": 2}),
    (order, {"item": "tea", "amount": 2}),
]


NAMES = [kind.__name__ for kind, _ in INPUTS]


BOXES: dict[str, Any] = {
    "list": lambda helper: [helper],
    "toolbox": lambda helper: Toolbox([helper]),
    "fail fast": lambda helper: Toolbox([helper], join="fail_fast", concurrency=1),
    "layered": lambda helper: Toolbox([stack(helper, timeout(seconds=60))]),
}


def _run(kind: Any, arguments: str, box: str = "list", **settings: Any) -> tuple[Any, list[Any], ScriptedModel]:
    seen: list[Any] = []

    def instructions(ctx: Context) -> str:
        seen.append(ctx.scope[AGENT_INPUT])
        return "Order it."

    model = ScriptedModel(always="ordered")
    helper = Agent(model, name="helper", instructions=instructions).as_tool(input_type=kind)
    outer = Agent(ScriptedModel(ToolCall("c", "helper", arguments), "done"), tools=BOXES[box](helper), **settings)
    run = outer.run_sync("go")
    assert_sendable(run.messages)
    return run, seen, model


@pytest.mark.parametrize(("example", "box"), sample(product(INPUTS, BOXES), 11))
def test_the_value_is_in_the_prompt_and_in_the_context(example: tuple[Any, Any], box: str) -> None:
    kind, value = example
    run, seen, model = _run(kind, '{"amount": 2, "item": "tea"}', box)
    assert run.observations == ("ordered",)
    assert seen == [value]
    assert type(seen[0]) is type(value)
    assert json.loads(model.last.messages[-1].text) == {"item": "tea", "amount": 2}


@pytest.mark.parametrize("kind", [kind for kind, _ in INPUTS], ids=NAMES)
def test_its_schema_is_that_of_the_tool(kind: Any) -> None:
    schema = Agent(ScriptedModel("x"), name="helper").as_tool(input_type=kind).spec.parameters
    properties: Any = schema["properties"]
    assert schema["type"] == "object"
    assert set(properties) == {"item", "amount"}
    assert properties["amount"]["minimum"] == 1


@pytest.mark.parametrize("kind", [kind for kind, _ in INPUTS], ids=NAMES)
def test_a_value_that_does_not_fit_is_an_error_for_the_model(kind: Any) -> None:
    for arguments in ("{}", '{"item": 3}', '{"item": "tea", "amount": 0}', "[]", "no"):
        run, seen, model = _run(kind, arguments)
        assert run.messages[2].tool_results[0].error == "invalid_arguments"
        assert not seen
        assert not model.calls


def test_the_value_has_its_defaults() -> None:
    for kind, value in ((Order, Order("tea")), (Trip, Trip("tea")), (Model, Model(item="tea"))):
        _, seen, model = _run(kind, '{"item": "tea"}')
        assert seen == [value]
        assert json.loads(model.last.messages[-1].text)["item"] == "tea"
    _, seen, _ = _run(order, '{"item": "tea"}')
    assert seen == [{"item": "tea", "amount": 1}]


def test_an_agent_that_takes_text_has_it_as_its_value() -> None:
    _, seen, model = _run(None, '{"input": "order tea"}')
    assert seen == ["order tea"]
    assert model.last.messages[-1].text == "order tea"


@pytest.mark.parametrize("kind", [int, list[str], Order | None, str])
def test_a_type_without_named_fields_is_refused(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="object"):
        Agent(ScriptedModel("x"), name="helper").as_tool(input_type=kind)


@pytest.mark.parametrize(("example", "box"), sample(product(INPUTS, BOXES), 11))
async def test_the_value_is_there_again_after_an_approval_in_another_process(
    example: tuple[Any, Any], box: str
) -> None:
    kind, value = example
    seen: list[Any] = []

    def instructions(ctx: Context) -> str:
        seen.append(ctx.scope[AGENT_INPUT])
        return "Order it."

    def outer(store: InMemoryStore) -> Agent:
        helper = Agent(ScriptedModel("ordered"), name="helper", instructions=instructions).as_tool(input_type=kind)
        call = ToolCall("c", "helper", '{"item": "tea", "amount": 2}')
        model = ScriptedModel(rules=[(lambda request: request.messages[-1].role == "user", call)], always="done")
        return Agent(model, tools=BOXES[box](helper), approvals=Approvals("helper"), store=store)

    store = InMemoryStore()
    waiting = await outer(store).run("go", run_id="r")
    run = await outer(elsewhere(store, "r")).resume("r", {item.id: Approve() for item in waiting.pending})
    assert run.text == "done"
    assert seen == [value]
