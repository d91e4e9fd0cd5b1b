from typing import Any, TypeVar

import pytest

from ziggurat import Agent, ConfigurationError, Context, ModelRequest, ModelResponse, Service, layer
from ziggurat.calls.hooks import HookChain
from ziggurat.flows import step
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.messages.middleware import HOOKS
from ziggurat.middleware import everywhere
from ziggurat.plans import Task, workflow
from ziggurat.stops import Completed
from ziggurat.testing import ScriptedModel

Q = TypeVar("Q")
R = TypeVar("R")
seen: list[str] = []


@layer
async def noted(request: Q, ctx: Context, inner: Service[Q, R], *, word: str) -> R:
    seen.append(f"{word} {ctx.path}")
    return await inner(request, ctx)


async def test_layers_go_around_every_call_of_their_kind_at_any_depth() -> None:
    seen.clear()

    def look() -> str:
        return "x"

    inner = Agent(ScriptedModel(tool_call("look"), "seen"), tools=[look], name="inner")
    outer = Agent(
        ScriptedModel(tool_call("inner", input="go"), "done"),
        tools=[inner],
        name="outer",
        middleware=[
            everywhere(model=[noted(word="m1"), noted(word="m2")], tool=[noted(word="t")], agent=[noted(word="a")])
        ],
    )
    assert (await outer.run("go")).text == "done"
    deep = "outer/step-1/tool-1:inner/inner"
    assert seen == [
        "a outer",
        "m1 outer/step-1/model",
        "m2 outer/step-1/model",
        "t outer/step-1/tool-1:inner",
        f"a {deep}",
        f"m1 {deep}/step-1/model",
        f"m2 {deep}/step-1/model",
        f"t {deep}/step-1/tool-1:look",
        f"m1 {deep}/step-2/model",
        f"m2 {deep}/step-2/model",
        "m1 outer/step-2/model",
        "m2 outer/step-2/model",
    ]


async def test_a_retry_of_every_model_is_one_call_on_record() -> None:
    model = ScriptedModel(ConnectionError("gone"), "back")
    run = await Agent(model, middleware=[everywhere(model=[retry(attempts=2, base=0)])]).run("go")
    assert (run.text, len(model.calls), run.steps) == ("back", 2, 1)


def test_only_what_has_layers_is_wrapped() -> None:
    chain = HookChain([everywhere(tool=[noted(word="t")])])
    assert [hook for hook in HOOKS if chain.hooks[hook]] == ["wrap_tool"]


def test_it_shows_its_layers_and_its_name() -> None:
    made = everywhere(model=[retry(attempts=2)], agent=[noted(word="a")])
    assert repr(made) == "everywhere(model=[retry(attempts=2)], agent=[noted(word='a')])"
    assert made.name == "everywhere"


async def service(request: ModelRequest, ctx: Context) -> ModelResponse:
    raise NotImplementedError


def test_what_is_no_layer_is_refused_where_it_is_given() -> None:
    with pytest.raises(ConfigurationError, match="nothing to do"):
        everywhere()
    with pytest.raises(ConfigurationError, match="model"):
        everywhere(model=retry(attempts=2))  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="function of 1 argument"):
        everywhere(model=[service])  # type: ignore[list-item]


class Noting:
    """A layer written as a class."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, request: Any, ctx: Context) -> Any:
        seen.append(f"class {ctx.path}")
        return await self.inner(request, ctx)


async def test_a_layer_may_be_a_class_wherever_layers_are_given() -> None:
    seen.clear()
    agent = Agent(ScriptedModel(always="done"), name="one")

    @step(layers=[Noting])
    async def work() -> str:
        return "worked"

    everywhere_in = Agent(ScriptedModel("done"), name="two", middleware=[everywhere(model=[Noting], agent=[Noting])])
    plan = workflow(Task("a", agent=agent, prompt="go", layers=[Noting]), Task("b", function=work), name="plan")
    runnables: list[Any] = [agent.layered(Noting), everywhere_in, plan]
    for each in runnables:
        assert (await each.run("go")).stop == Completed()
    assert seen == ["class one", "class two", "class two/step-1/model", "class plan/a/one", "class plan/b"]
