"""Everything that can be a tool, with everything that can be around it, in a list or a toolbox."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import pytest

from tests.samples import pairs, sample
from ziggurat import Agent, AgentRun, ConfigurationError, Context, Toolbox, ToolCall, ToolResult, layer, stack, tool
from ziggurat.core.service import COMPOSITE, EFFECT, NAME, Enclosed, fact, name_of
from ziggurat.flows import flow
from ziggurat.layers.alternatives import fallback, hedge
from ziggurat.layers.retry import retry, timeout
from ziggurat.messages import ToolSpec, stops, tool_call
from ziggurat.messages.model import SPEC, WINDOW
from ziggurat.teams import handoffs
from ziggurat.testing import ScriptedModel

passed: list[str] = []


def counting(inner: Any) -> Any:
    """A layer written as a plain function."""

    async def counted(request: Any, ctx: Context) -> Any:
        passed.append("closure")
        return await inner(request, ctx)

    return counted


class Counting:
    """A layer written as a class, whose instances say nothing of what they wrap."""

    def __init__(self, inner: Any) -> None:
        self.wrapped = inner

    async def __call__(self, request: Any, ctx: Context) -> Any:
        passed.append("class")
        return await self.wrapped(request, ctx)


class CountingInner:
    """A layer written as a class, whose instances say what they wrap."""

    __slots__ = ("inner",)

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, request: Any, ctx: Context) -> Any:
        passed.append("class with inner")
        return await self.inner(request, ctx)


@layer
async def noting(request: Any, ctx: Context, inner: Any) -> Any:
    passed.append("layer")
    return await inner(request, ctx)


def look(text: str) -> str:
    """Look something up."""
    return f"found {text}"


async def look_async(text: str) -> str:
    """Look something up."""
    return f"found {text}"


look_async.__name__ = "look"


def inner_agent() -> Agent:
    return Agent(ScriptedModel(always="found a"), name="look", description="Looks something up.")


THINGS: dict[str, Callable[[], Any]] = {
    "function": lambda: look,
    "async function": lambda: look_async,
    "tool": lambda: tool(look),
    "agent": inner_agent,
    "agent as tool": lambda: inner_agent().as_tool(),
}
AROUND: dict[str, tuple[Callable[[Any], Any], list[str]]] = {
    "nothing": (lambda thing: thing, []),
    "layer": (lambda thing: stack(thing, noting()), ["layer"]),
    "closure": (lambda thing: stack(thing, counting), ["closure"]),
    "class": (lambda thing: stack(thing, Counting), ["class"]),
    "class with inner": (lambda thing: stack(thing, CountingInner), ["class with inner"]),
    "all": (
        lambda thing: stack(thing, noting(), counting, timeout(seconds=5), CountingInner, Counting),
        ["layer", "closure", "class with inner", "class"],
    ),
    "stacks of stacks": (lambda thing: stack(stack(thing, counting), retry(), noting()), ["layer", "closure"]),
}


@pytest.mark.parametrize(
    ("thing", "around", "place"),
    [("function", "nothing", list), *pairs([each for each in THINGS if each != "function"], AROUND, [list, Toolbox])],
)
async def test_it_works_as_a_tool(thing: str, around: str, place: Callable[[Any], Any]) -> None:
    wrap, layers = AROUND[around]
    arguments = {"input": "a"} if "agent" in thing else {"text": "a"}
    model = ScriptedModel(tool_call("look", **arguments), "end")
    passed.clear()
    run = await Agent(model, tools=place([wrap(THINGS[thing]())])).run("x")
    assert run.stop == stops.Completed()
    assert run.observations == ("found a",)
    assert run.failed_tool_calls == 0
    assert passed == layers
    (spec,) = model.calls[0].tools
    assert spec.name == "look"
    assert spec.description.startswith("Look")


@pytest.mark.parametrize("around", AROUND)
def test_facts_are_readable_through_all_layers(around: str) -> None:
    wrap, _ = AROUND[around]
    model = wrap(ScriptedModel("x", window=77))
    agent = wrap(inner_agent())
    once = wrap(tool(effect="once")(look))
    assert fact(model, WINDOW) == 77
    assert name_of(model) == "scripted"
    assert fact(agent, COMPOSITE)
    assert (fact(once, EFFECT), getattr(fact(once, SPEC), "name", "")) == ("once", "look")


def test_a_closure_shows_in_the_stack_and_what_states_its_own_facts_keeps_them() -> None:
    model = ScriptedModel("x")
    assert repr(stack(model, retry(), counting)).startswith("retry() > counting > ")
    assert isinstance(stack(model, counting), Enclosed)

    def second(inner: Any) -> Any:
        return fallback(inner, ScriptedModel("y", name="other"))

    both = stack(model, second)
    assert fact(both, NAME) == "fallback(scripted, other)"
    assert stack(model, lambda inner: inner) is model


async def test_an_agent_layered_with_a_closure_is_an_agent() -> None:
    agent = inner_agent().layered(counting)
    passed.clear()
    assert (await agent.run("x")).text == "found a"
    assert passed == ["closure"]
    assert agent.name == "look"


class OwnTool:
    """A service that states what tools state."""

    def __init__(self, effect: Any) -> None:
        self.made: list[str] = []
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        self.facts = {SPEC: ToolSpec("look", "Look something up.", schema, effect), EFFECT: effect}

    async def __call__(self, call: ToolCall, ctx: Context) -> ToolResult:
        self.made.append(call.arguments)
        return ToolResult(call.id, call.name, "found", None, call.name)


def own_function(made: list[str], effect: Any) -> Any:
    @tool(name="look", effect=effect)
    async def noted(text: str) -> str:
        """Look something up."""
        made.append(f'{{"text":"{text}"}}')
        return "found"

    return noted


def as_closure(change: Any) -> Any:
    return lambda inner: lambda call, ctx: change(call, ctx, inner)


def as_class(change: Any) -> Any:
    class Changing:
        def __init__(self, inner: Any) -> None:
            self.inner = inner

        async def __call__(self, call: Any, ctx: Context) -> Any:
            return await change(call, ctx, self.inner)

    return Changing


FORMS: dict[str, Callable[[Any], Any]] = {
    "layer": lambda change: layer(change)(),
    "closure": as_closure,
    "class": as_class,
    "partial": lambda change: partial(lambda change, inner: as_closure(change)(inner), change),
}


@pytest.mark.parametrize(("kind", "form"), sample(product(["service", "function"], FORMS), 5))
def test_no_layer_has_a_tool_do_anything_but_the_checked_call(kind: str, form: str) -> None:
    async def changed(call: ToolCall, ctx: Context, inner: Any) -> Any:
        return await inner(ToolCall(call.id, call.name, '{"text":"b"}'), ctx)

    run, made = run_changed(kind, "repeatable", FORMS[form](changed))
    assert made == []
    assert "approved" in run.observations[0]


@pytest.mark.parametrize(("kind", "form"), sample(product(["service", "function"], FORMS), 5))
def test_no_layer_has_a_tool_act_twice_that_acts_once(kind: str, form: str) -> None:
    async def twice(call: ToolCall, ctx: Context, inner: Any) -> Any:
        await inner(call, ctx)
        return await inner(call, ctx)

    run, made = run_changed(kind, "once", FORMS[form](twice))
    assert made == ['{"text":"a"}']
    assert "acts once only" in run.observations[0]


def run_changed(kind: str, effect: str, around: Any) -> tuple[AgentRun, list[str]]:
    own = OwnTool(effect)
    thing: Any = own if kind == "service" else own_function(own.made, effect)
    model = ScriptedModel(tool_call("look", text="a"), "end")
    return asyncio.run(Agent(model, tools=[stack(thing, noting(), around)]).run("x")), own.made


def with_effect(effect: Any) -> Any:
    return tool(effect=effect)(look)


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "tool": lambda each: each,
    "agent": lambda each: Agent(ScriptedModel("x"), tools=[each], name="holder"),
    "nested agent": lambda each: Agent(
        ScriptedModel("x"), tools=[Agent(ScriptedModel("x"), tools=[each], name="inner")], name="outer"
    ),
    "agent with other tools": lambda each: Agent(
        ScriptedModel("x"), tools=[tool(name="a", effect="none")(look), each, tool(name="b", effect="none")(look)]
    ),
    "agent with layers": lambda each: Agent(ScriptedModel("x"), tools=[each]).layered(retry(), counting),
    "agent as a tool": lambda each: Agent(ScriptedModel("x"), tools=[each]).as_tool(),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_race_refuses_what_has_effects_however_deep(holder: str) -> None:
    harmless = HOLDERS[holder](with_effect("none"))
    hedge(harmless, delay=1)
    hedge(ScriptedModel("x"), harmless, delay=1)
    for effect in ("repeatable", "once"):
        made = HOLDERS[holder](with_effect(effect))
        for services in ((made,), (ScriptedModel("x"), made), (made, ScriptedModel("x"))):
            with pytest.raises(ConfigurationError, match=rf"has effects \({effect}\)"):
                hedge(*services, delay=1)


@pytest.mark.parametrize("holder", ["flow", "agent of a flow", "team of a flow"])
def test_a_race_refuses_code_that_may_have_effects(holder: str) -> None:
    @flow
    async def order(what: str) -> str:
        return "ordered"

    made = {
        "flow": order,
        "agent of a flow": Agent(ScriptedModel("x"), tools=[order], name="agent"),
        "team of a flow": handoffs(order, name="team"),
    }[holder]
    with pytest.raises(ConfigurationError, match=r"has effects \(repeatable\)"):
        hedge(made, delay=1)
