"""Stop policies: when a run stops, and which policy decides first."""

from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.agents.support import assert_sendable
from tests.samples import pairs, sample
from ziggurat import (
    Agent,
    AgentRun,
    Approvals,
    Approve,
    Budget,
    ConfigurationError,
    Context,
    Denied,
    Deny,
    Message,
    ModelResponse,
    Rule,
    Timeout,
    ToolCall,
    ToolError,
    Usage,
    stop_when,
    tool,
    until_tool_called,
)
from ziggurat.agents import Environment, Output, max_steps, until_no_tool_calls
from ziggurat.agents.stop import Advice, BasePolicy, Policy, Progress, all_of, any_of
from ziggurat.errors import LimitExceeded, ModelError, ServiceError
from ziggurat.messages import assistant, stops, tool_call
from ziggurat.messages.model import FinishReason, OutputMode
from ziggurat.models import FunctionModel
from ziggurat.testing import HandClock, Pause, ScriptedModel, ScriptedReply

CALLS: list[ScriptedReply] = [
    tool_call("echo", text="a"),
    tool_call("submit", text="b"),
    tool_call("echo", text="c"),
    "done",
]


async def echo(text: str) -> str:
    """Echo."""
    return text


async def submit(text: str) -> str:
    """Submit."""
    return f"submitted {text}"


def _run(policy: Policy | None, **options: Any) -> AgentRun:
    run = Agent(ScriptedModel(*CALLS), tools=[echo, submit], stop=policy, **options).run_sync("go")
    assert_sendable(run.messages)
    return run


def test_until_tool_called_stops_after_the_tool_has_run() -> None:
    run = _run(until_tool_called("submit"))
    assert run.stop == stops.ToolCalled("submit")
    assert run.observations == ("a", "submitted b")
    assert not run.has_final_answer
    assert run.raise_for_stop() is run


def _fails(text: str) -> str:
    """Submit."""
    raise ToolError("no")


def _slow(text: str) -> str:
    """Submit."""
    raise TimeoutError


NOT_SUBMITTED: dict[str, dict[str, Any]] = {
    "invalid arguments": {"first": tool_call("submit", txt="x")},
    "no JSON": {"first": ToolCall("1", "submit", "{")},
    "unknown tool": {"tools": [echo]},
    "failed": {"tools": [tool(name="submit")(_fails)]},
    "timed out": {"tools": [tool(name="submit")(_slow)]},
    "denied by a rule": {"approvals": Approvals(Rule("submit", "deny"))},
    "denied by a person": {"approvals": Approvals("submit", approver=lambda item: Deny("no"))},
    "without permission": {"tools": [tool(permissions=["network"])(submit)], "grants": []},
    "over budget": {"first": tool_call("submit", text="b"), "budget": Budget(tools={"submit": 1}), "before": "ok"},
}


@pytest.mark.parametrize("reason", NOT_SUBMITTED)
def test_until_tool_called_wants_a_call_that_ran_and_succeeded(reason: str) -> None:
    options = dict(NOT_SUBMITTED[reason])
    first = options.pop("first", tool_call("submit", text="b"))
    tools = options.pop("tools", [submit])
    policy = until_tool_called("submit")
    if options.pop("before", None):  # the call that used the budget up succeeded, in another step
        policy = policy & stop_when(lambda progress: progress.step > 1)
        first = [tool_call("submit", text="a"), first]
    else:
        first = [first]
    run = Agent(ScriptedModel(*first, "end"), tools=tools, stop=policy, **options).run_sync("go")
    assert run.stop == stops.Completed()
    assert run.text == "end"
    assert run.failed_tool_calls == 1


def test_one_of_several_calls_is_enough_for_until_tool_called() -> None:
    calls: list[ScriptedReply] = [[tool_call("submit", id="1", txt=""), tool_call("submit", id="2", text="b")], "end"]
    run = Agent(ScriptedModel(*calls), tools=[submit], stop=until_tool_called("submit")).run_sync("go")
    assert run.stop == stops.ToolCalled("submit")


WHOLE = ("stop", "other", "tool_calls")
CUT = ("length", "content_filter", "refusal", "error")


STORES = ("memory:", "sqlite:///{}/runs.db", "file:///{}/runs")
POLICIES = (None, until_no_tool_calls(), max_steps(9) | until_no_tool_calls())


@pytest.mark.parametrize(("finish", "policy", "store"), pairs([*WHOLE, *CUT], POLICIES, STORES))
def test_an_answer_that_is_not_whole_ends_the_run_as_such(
    finish: FinishReason, policy: Policy | None, store: str, tmp_path: Path
) -> None:
    model = ScriptedModel(ModelResponse(assistant("The first reason is"), finish=finish))
    agent = Agent(model, stop=policy, store=store.format(tmp_path))
    run = agent.run_sync("why?", run_id="r")
    assert run.text == run.output == "The first reason is"
    for each in (run, agent.run_sync("why?", run_id="r")):  # also from the record
        if finish in WHOLE:
            assert (each.stop, each.finish, each.error) == (stops.Completed(), "stop", None)
            assert each.raise_for_stop() is each
        else:
            assert (each.stop, each.finish) == (stops.Incomplete(finish), finish)
            assert each.error
            with pytest.raises(ModelError) as caught:
                each.raise_for_stop()
            assert caught.value.kind == ("content_filter" if finish in ("content_filter", "refusal") else "other")
            assert not each.has_final_answer


ENDS = {
    "none": None,
    "alone": until_no_tool_calls(),
    "any": max_steps(9) | until_no_tool_calls(),
    "all": max_steps(1) & until_no_tool_calls(),
}


@pytest.mark.parametrize(
    ("finish", "mode", "policy"), sample(product([*WHOLE, *CUT], ["native", "tool", "prompted"], ENDS), 24)
)
def test_an_answer_that_fits_its_type_is_whole_however_it_ended(
    finish: FinishReason, mode: OutputMode, policy: str
) -> None:
    final = tool_call("final_answer", value=3)
    whole = ModelResponse(Message("assistant", (final,)) if mode == "tool" else assistant(final.arguments), finish)
    model = FunctionModel(lambda request: whole, output_modes=["native", "tool", "prompted"])
    run = Agent(model, output=Output(int, mode), stop=ENDS[policy]).run_sync("?")
    assert (run.output, run.stop, run.steps) == (3, stops.Completed(), 1)


def test_a_sub_agents_answer_that_is_not_whole_is_an_error_with_the_text_so_far() -> None:
    inner = Agent(ScriptedModel(ModelResponse(assistant("The first"), finish="length")), name="inner")
    run = Agent(ScriptedModel(tool_call("inner", input="x"), "end"), tools=[inner]).run_sync("go")
    assert run.observations == ("inner stopped before it was done (Incomplete); so far: The first",)
    assert run.failed_tool_calls == 1


@pytest.mark.parametrize(
    ("policy", "given", "steps"),
    [
        (None, None, 25),
        (max_steps(30), None, 30),
        (max_steps(5), None, 5),
        (max_steps(5), 3, 3),
        (max_steps(3), 5, 3),
        (max_steps(30) | until_tool_called("never"), None, 30),
        (until_tool_called("never") | any_of(max_steps(30), max_steps(40)), None, 30),
        (max_steps(28) & stop_when(lambda progress: progress.step > 26), None, 28),
        (max_steps(28) & stop_when(lambda progress: False), None, 28 + 25),
        (max_steps(28) & (until_tool_called("never") | max_steps(30)), None, 30),
    ],
)
def test_max_steps_in_a_policy_raises_the_default_limit(policy: Policy | None, given: int | None, steps: int) -> None:
    model = ScriptedModel(always=tool_call("echo", text="a"))
    run = Agent(model, tools=[echo], stop=policy, max_steps=given).run_sync("go")
    assert (run.stop, run.steps) == (stops.MaxSteps(steps), steps)


class Nonsense(BasePolicy):
    def __init__(self, where: str, answer: object) -> None:
        self.where = where
        self.answer = answer

    def on_response(self, progress: Progress) -> Any:
        return self.answer if self.where == "response" else None

    def on_step(self, progress: Progress) -> Any:
        return self.answer if self.where == "step" else None


@pytest.mark.parametrize(
    ("around", "where", "answer"),
    pairs(
        [lambda policy: policy, lambda policy: policy | max_steps(9)],
        ["response", "step"],
        ["stop", True, 0, False, stops.Completed, ()],
    ),
)
def test_a_policy_that_returns_nonsense_is_named(around: Any, where: str, answer: object) -> None:
    policy = around(Nonsense(where, answer))
    agent = Agent(ScriptedModel(*CALLS), tools=[echo, submit], stop=policy)
    with pytest.raises(ConfigurationError, match="returned") as caught:
        agent.run_sync("go")
    assert "Nonsense" in str(caught.value)


def test_a_condition_that_returns_an_awaitable_is_refused() -> None:
    async def never(progress: Progress) -> bool:
        return False

    class Never:
        async def __call__(self, progress: Progress) -> bool:
            return False

    for condition in (never, partial(never), Never(), Never().__call__, lambda progress: never(progress)):
        with pytest.raises(ConfigurationError, match="awaitable"):
            _run(stop_when(condition))  # type: ignore[arg-type]


def test_stop_when_stops_before_the_tools_run() -> None:
    run = _run(stop_when(lambda progress: "enough" if progress.step == 2 else None))
    assert run.stop == stops.StopCondition("enough")
    assert run.observations[0] == "a"
    assert run.observations[1].startswith("not executed")
    assert run.tool_calls == 1


def test_stop_when_may_say_true() -> None:
    assert _run(stop_when(lambda progress: progress.step == 1)).stop == stops.StopCondition("")


def test_a_policy_is_asked_before_natural_completion() -> None:
    run = Agent(ScriptedModel("done"), stop=stop_when(lambda progress: "mine")).run_sync("go")
    assert run.stop == stops.StopCondition("mine")
    assert run.output == "done"


def test_the_first_policy_that_stops_names_the_reason() -> None:
    both = [until_tool_called("echo"), max_steps(1)]
    assert _run(any_of(*both)).stop == stops.ToolCalled("echo")
    assert _run(any_of(*reversed(both))).stop == stops.MaxSteps(1)
    assert _run(max_steps(1) | until_tool_called("echo")).stop == stops.MaxSteps(1)
    assert _run(until_tool_called("submit"), max_steps=2).stop == stops.ToolCalled("submit")
    assert _run(until_tool_called("nothing"), max_steps=2).stop == stops.MaxSteps(2)
    assert _run(until_no_tool_calls()).stop == stops.Completed()


def test_progress_tells_how_far_it_got() -> None:
    seen: list[Progress] = []

    class Watch:
        def on_response(self, progress: Progress) -> None:
            seen.append(progress)

        def on_step(self, progress: Progress) -> None:
            seen.append(progress)

    model = ScriptedModel(*CALLS[:1], "done", usage=Usage(3, 1, requests=1))
    Agent(model, tools=[echo], stop=Watch()).run_sync("go")
    assert [(each.step, each.usage.total, each.tool_calls, len(each.results)) for each in seen] == [
        (1, 4, 0, 0),
        (1, 4, 1, 1),
        (2, 8, 1, 1),
    ]
    assert [call.name for call in seen[0].calls] == ["echo"]


def test_a_policy_that_raises_fails_the_run() -> None:
    def broken(progress: Progress) -> bool:
        raise KeyError("x")

    run = _run(stop_when(broken))
    assert isinstance(run.stop, stops.Failed)
    assert run.stop.kind == "KeyError"


async def test_a_timeout_cancels_in_mid_call_and_keeps_what_is_complete() -> None:
    model = ScriptedModel(tool_call("echo", text="a"), ["half", Pause(60), "never"])
    went = await Agent(model, tools=[echo], timeout=5).run("go", environment=Environment(clock=HandClock(auto=True)))
    assert went.stop == stops.TimedOut(5)
    assert [message.role for message in went.messages] == ["user", "assistant", "tool"]
    assert went.seconds == pytest.approx(5)
    with pytest.raises(Timeout):
        went.raise_for_stop()


async def test_a_timeout_while_a_tool_runs() -> None:
    async def slow(ctx: Context) -> str:
        await ctx.clock.sleep(60)
        return "late"

    agent = Agent(ScriptedModel(tool_call("slow")), tools=[slow], timeout=5)
    went = await agent.run("go", environment=Environment(clock=HandClock(auto=True)))
    assert went.stop == stops.TimedOut(5)
    assert [message.role for message in went.messages] == ["user"]


async def test_a_run_that_goes_on_is_told_its_whole_limit_when_what_was_left_of_it_is_over() -> None:
    @tool(approval=True)
    async def slow(ctx: Context) -> str:
        await ctx.clock.sleep(60)
        return "late"

    environment = Environment(clock=HandClock(auto=True))
    agent = Agent(ScriptedModel([Pause(3), tool_call("slow")]), tools=[slow], timeout=5)
    (item,) = (await agent.run("go", environment=environment, run_id="r")).pending
    went = await agent.resume("r", {item.id: Approve()}, environment=environment)
    assert went.stop == stops.TimedOut(5)
    assert went.seconds == pytest.approx(5)
    with pytest.raises(Timeout) as caught:
        went.raise_for_stop()
    assert caught.value.seconds == 5


@pytest.mark.parametrize(
    ("error", "stop", "raised"),
    [
        (Denied("policy says no"), stops.ModelCallDenied("policy says no"), Denied),
        (LimitExceeded("tokens", 10, 12), stops.BudgetExceeded("tokens", 10, 12), LimitExceeded),
        (Timeout(seconds=3), stops.TimedOut(3), Timeout),
        (RuntimeError("x"), stops.Failed("x", "RuntimeError"), ServiceError),
        (RuntimeError(), stops.Failed("RuntimeError", "RuntimeError"), ServiceError),
    ],
    ids=repr,
)
def test_errors_of_the_model_become_stops(error: Exception, stop: stops.Stop, raised: type[Exception]) -> None:
    run = Agent(ScriptedModel(error)).run_sync("go")
    assert run.stop == stop
    with pytest.raises(raised) as caught:
        run.raise_for_stop()
    assert caught.value.partial is run  # type: ignore[attr-defined]


def test_policies_of_wrong_values_are_refused() -> None:
    mistakes: list[tuple[Any, tuple[Any, ...], str]] = [
        (max_steps, (0,), "at least 1"),
        (max_steps, (True,), "at least 1"),
        (max_steps, ("3",), "whole number"),
        (until_tool_called, ("",), "tool"),
        (stop_when, ("x",), "function"),
        (any_of, (lambda progress: True,), "stop_when"),
        (all_of, (), "policy"),
    ]
    for make, arguments, told in mistakes:
        with pytest.raises(ConfigurationError, match=told):
            make(*arguments)


def test_all_of_stops_in_the_first_step_in_which_all_do() -> None:
    both = until_tool_called("echo") & stop_when(lambda progress: progress.step > 1)
    run = _run(both)
    assert (run.stop, run.steps) == (stops.ToolCalled("echo"), 3)  # one acts on the step, the other before
    assert _run(all_of(max_steps(3), until_tool_called("submit"))).stop == stops.Completed()
    assert _run(all_of(max_steps(2), until_tool_called("submit"))).stop == stops.MaxSteps(2)


class Counting:
    """Nudges at every step and stops after three; its state belongs to the run."""

    def on_response(self, progress: Progress) -> Advice | stops.StopCondition | None:
        seen = progress.state(self, list[int])
        seen.append(progress.step)
        return stops.StopCondition(repr(seen)) if len(seen) > 2 else Advice(texts=(f"step {progress.step}",))

    def on_step(self, progress: Progress) -> None:
        return None


def test_what_a_policy_remembers_belongs_to_one_run() -> None:
    policy = any_of(Counting(), Counting())
    for _ in range(2):
        run = _run(policy)
        assert run.stop == stops.StopCondition("[1, 2, 3]")
    told = [message for message in run.messages if message.origin == "runtime"]
    assert [(message.role, message.text) for message in told] == [
        ("user", "step 1\nstep 1"),
        ("user", "step 2\nstep 2"),
    ]


def test_policies_show_what_they_are() -> None:
    assert repr(max_steps(3) | until_tool_called("x")) == "max_steps(3) | until_tool_called('x')"
    assert repr(until_no_tool_calls()) == "until_no_tool_calls()"
    every = (max_steps(3) | until_tool_called("x")) & until_no_tool_calls()
    assert repr(every) == "(max_steps(3) | until_tool_called('x')) & until_no_tool_calls()"
