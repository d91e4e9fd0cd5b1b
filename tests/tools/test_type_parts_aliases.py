"""Fields of pydantic models under all combinations of names: refused when declared, or read back as recorded."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import AliasChoices, AliasGenerator, AliasPath, BaseModel, ConfigDict, Field, create_model
from pydantic.dataclasses import dataclass

from ziggurat import Agent, ConfigurationError, ToolCall, tool
from ziggurat.flows import flow, step
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool

READ: list[Any] = [None, "a", "x", AliasChoices("a", "x"), AliasChoices("b", "c"), AliasPath("a"), AliasPath("a", 0)]
WRITTEN = [None, "a", "b", "x"]
CONFIGS = [ConfigDict(), ConfigDict(validate_by_name=True), ConfigDict(validate_by_name=True, validate_by_alias=False)]


def models() -> Iterator[type[BaseModel]]:
    for read, written, config, excluded in itertools.product(READ, WRITTEN, CONFIGS, [False, True]):
        field: Any = Field(default=0, validation_alias=read, serialization_alias=written, exclude=excluded)
        inner = create_model("Inner", __config__=config, x=(int, field))
        yield inner
        yield create_model("Outer", many=(list[dict[str, inner | None]], ...))  # type: ignore[valid-type]


def taking(kind: Any) -> FunctionTool:
    async def take(value: Any) -> str:
        return "taken"

    take.__annotations__["value"] = kind
    return tool(take)


def test_what_is_recorded_of_a_model_gives_its_values_back() -> None:
    for kind in models():
        made = taking(kind)
        for names in (("a",), ("b",), ("x",), ("a", "x")):
            inner: dict[str, object] = dict.fromkeys(names, 7)
            given = {"many": [{"k": inner}, {"k": None}]} if kind.__name__ == "Outer" else inner
            call = ToolCall("c", "take", json.dumps({"value": given}))
            value = made.arguments.decode(call.arguments)["value"]
            normal = made.normalize(call)
            assert made.arguments.decode(normal.arguments)["value"] == value, (kind.model_fields, normal)
            assert made.normalize(normal) == normal


def both_ways() -> type:
    @dataclass
    class Place:
        x: int = Field(validation_alias="a")

    return Place


@pytest.mark.parametrize(
    "kind",
    [
        create_model("Bad", x=(int, Field(validation_alias="a", serialization_alias="b"))),
        create_model(
            "Made", __config__=ConfigDict(alias_generator=AliasGenerator(validation_alias=str.upper)), x=(int, ...)
        ),
        both_ways(),
    ],
    ids=lambda kind: kind.__name__,
)
async def test_a_required_one_is_refused_before_a_step_is_run(kind: type) -> None:
    async def work() -> Any:
        raise AssertionError("it was run")

    work.__annotations__["return"] = kind
    made = step(work)

    @flow(store="memory:")
    async def order() -> None:
        await made()

    with pytest.raises(ConfigurationError, match="the step work: the field 'x' is read as"):
        await order.run()


async def test_one_alias_for_both_works_in_a_run() -> None:
    class City(BaseModel):
        name: str = Field(alias="city")
        kept: int = Field(1, init=False)

    seen: list[City] = []

    @tool
    async def visit(city: City) -> str:
        seen.append(city)
        return city.name

    run = Agent(ScriptedModel(tool_call("visit", city={"city": "Ur"}), "done"), tools=[visit])
    assert (await run.run("go")).observations == ("Ur",)
    assert seen[0].name == "Ur"
