import copy
import pickle

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from ziggurat import AgentRequest, AgentRun, Approve, Deny, Modify, ToolResult, user
from ziggurat.agents import Decision, PendingItem
from ziggurat.core import errors
from ziggurat.core.codec import Raw, decode, encode, plain
from ziggurat.core.failures import Cause
from ziggurat.messages import Thinking, Transcript, assistant, stops, system, tool_call, tool_message
from ziggurat.messages.agent import AgentStep, pending_of
from ziggurat.stops import Stop

from .strategies import calls, json_values, messages, usages, words

ALL_STOPS: list[Stop] = [
    stops.Completed(), stops.Incomplete("length"), stops.MaxSteps(8), stops.ToolCalled("finish"),
    stops.StopCondition("enough"), stops.LoopDetected("search", 3), stops.BudgetExceeded("tokens", 10, 12),
    stops.TimedOut(3.0), stops.ModelCallDenied("no"), stops.Suspended(), stops.Cancelled(),
    stops.Continued("r~2"),
    stops.Failed("boom", "ValueError"),
]  # fmt: skip
pending = st.builds(PendingItem, words, words, calls, words)
runs = st.builds(
    AgentRun,
    st.lists(messages, max_size=3).map(lambda log: Transcript.of(*log)),
    st.sampled_from(ALL_STOPS),
    json_values,
    usages,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    words,
    words,
    st.lists(pending, max_size=2).map(tuple),
    st.integers(0, 3),
    st.floats(0, 1e6),
)


@given(runs)
def test_every_run_comes_back_through_json(run: AgentRun) -> None:
    assert decode(encode(run), AgentRun) == run


@given(st.lists(messages, max_size=3).map(tuple))
def test_every_request_comes_back_through_json(log: tuple[object, ...]) -> None:
    request = AgentRequest(log)  # type: ignore[arg-type]
    again = decode(encode(request), AgentRequest)
    assert again == request
    assert again.fingerprint() == request.fingerprint()


def test_every_stop_comes_back_through_json() -> None:
    assert {type(stop) for stop in ALL_STOPS} == set(Stop.__args__)
    for stop in ALL_STOPS:
        assert decode(encode(stop), Stop) == stop


@pytest.mark.parametrize("decision", [Approve(), Deny("too much"), Modify('{"a":1}')])
def test_every_decision_comes_back_through_json(decision: Decision) -> None:
    assert decode(encode(decision), Decision) == decision


def test_changed_arguments_are_given_by_name_or_as_json_in_code_and_in_json() -> None:
    answered = decode('{"decision": "modify", "arguments": {"a": 1}}', Decision)
    assert [each.text for each in (answered, Modify({"a": 1}), Modify('{"a": 1}'))] == ['{"a": 1}'] * 3


SEARCH, ADD = tool_call("search", id="1", q="x"), tool_call("add", id="2", a=1)
FOUND, FAILED = ToolResult("1", "search", "found"), ToolResult("2", "add", "no b", "invalid_arguments")
RUN = AgentRun(
    Transcript.of(
        user("an earlier question"),
        assistant("an earlier answer"),
        user("now"),
        assistant("let me see", SEARCH, ADD),
        tool_message(FOUND),
        tool_message(FAILED),
        assistant(Thinking("hm"), SEARCH),
        tool_message(FOUND),
        assistant("done"),
    ),
    stops.Completed(),
    start=3,
)


def test_the_text_is_the_models_last_word_of_this_run() -> None:
    assert RUN.text == "done"
    assert AgentRun(RUN.messages, stops.Completed(), start=9).text == ""
    assert AgentRun(Transcript.of(assistant("old"), user("x"), system("y")), stops.Completed(), start=1).text == ""


def test_the_trace_holds_thoughts_calls_and_results_step_by_step() -> None:
    assert RUN.trace() == (
        AgentStep(1, "let me see", (SEARCH, ADD), (FOUND, FAILED)),
        AgentStep(2, "hm", (SEARCH,), (FOUND,)),
        AgentStep(3, "", (), (), "done"),
    )
    assert RUN.step_at(1) == RUN.trace()[1]
    assert RUN.step_at(3) is None
    assert RUN.step_at(-1) is None


def test_views_of_thoughts_actions_and_observations() -> None:
    assert RUN.thoughts == ("let me see", "hm")
    assert RUN.actions == ('search {"q":"x"}', 'add {"a":1}', 'search {"q":"x"}')
    assert RUN.observations == ("found", "no b", "found")
    assert RUN.trace()[0].action == 'search {"q":"x"}; add {"a":1}'
    assert RUN.trace()[0].observation == "found; no b"
    assert RUN.failed_tool_calls == 1
    assert RUN.most_common_action == 'search {"q":"x"}'
    assert RUN.has_final_answer
    assert RUN.history == RUN.messages


def test_of_equally_common_actions_the_first_counts() -> None:
    run = AgentRun(Transcript.of(assistant(ADD), assistant(SEARCH)), stops.MaxSteps(2))
    assert run.most_common_action == 'add {"a":1}'
    assert not run.has_final_answer
    assert AgentRun(Transcript.of(), stops.Completed()).most_common_action is None


def test_a_stop_is_raised_where_it_is_no_success() -> None:
    for stop in ALL_STOPS:
        run = AgentRun(Transcript.of(), stop)
        if isinstance(stop, (stops.Completed, stops.ToolCalled, stops.StopCondition, stops.Continued)):
            assert run.raise_for_stop() is run
            continue
        with pytest.raises(errors.ServiceError) as caught:
            run.raise_for_stop()
        assert caught.value.partial is run


@pytest.mark.parametrize("stop", ALL_STOPS)
def test_an_output_that_is_not_there_raises_the_error_of_the_stop(stop: Stop) -> None:
    run = AgentRun(Transcript.of(), stop, cause=Cause.of(ValueError("boom")))
    if isinstance(stop, stops.Completed):
        assert run.output is None  # as that of a flow without a result
        return
    with pytest.raises(errors.ServiceError) as caught:
        print(run.output)
    assert type(caught.value) is type(stops.error_of(stop))
    assert (caught.value.partial, caught.value.__cause__) == (run, run.cause and run.cause.error)
    assert "has_final_answer" in caught.value.__notes__[0]
    assert replace(run, output=3).output == 3  # such as a text that was cut


def test_an_output_that_waits_says_for_what_it_does() -> None:
    items = (
        PendingItem("1", "agent/step-1/tool-1:pay", tool_call("pay"), "by a rule"),
        PendingItem("2", "flow/ask", tool_call("ask"), "Which city?", "question"),
        PendingItem("3", "flow/sleep", tool_call("sleep"), "until noon", "timer"),
    )
    with pytest.raises(
        errors.ServiceError, match=r"suspended, see run.pending: it waits for pay, Which city\?, until noon;"
    ):
        print(AgentRun[str](Transcript.of(), stops.Suspended(), pending=items).output.upper())


@pytest.mark.parametrize("stop", [stops.Completed(), stops.Suspended()])
def test_a_run_without_an_output_is_data_all_the_same(stop: Stop) -> None:
    run = AgentRun(Transcript.of(user("hi")), stop)
    assert decode(encode(run), AgentRun) == pickle.loads(pickle.dumps(run)) == copy.deepcopy(run) == run
    assert repr(run)
    assert plain(run)["output"] is None
    assert replace(run, steps=2).steps == 2


def test_a_run_that_did_not_go_on_has_an_error_in_words() -> None:
    for stop in ALL_STOPS:
        error = AgentRun(Transcript.of(), stop).error
        if isinstance(stop, (stops.Completed, stops.ToolCalled, stops.StopCondition, stops.Continued, stops.Suspended)):
            assert error is None
        elif isinstance(stop, stops.Failed):
            assert error == stop.error
        else:
            assert error == str(stops.error_of(stop))


@pytest.mark.parametrize(
    "stop", [stops.TimedOut(3.0), stops.BudgetExceeded("tokens", 10, 12), stops.ModelCallDenied("no")]
)
def test_a_stop_made_an_error_is_that_stop(stop: Stop) -> None:
    assert stops.stop_of(stops.error_of(stop)) == stop


@pytest.mark.parametrize(
    ("error", "stop"),
    [
        (errors.Timeout("late"), stops.TimedOut(0.0)),
        (errors.Suspend(()), stops.Suspended()),
        (ValueError("no"), stops.Failed("no", "ValueError")),
        (ValueError(), stops.Failed("ValueError", "ValueError")),
        (errors.ForeignError("HttpError", "500"), stops.Failed("500", "HttpError")),
    ],
)
def test_errors_amount_to_stops(error: BaseException, stop: Stop) -> None:
    assert stops.stop_of(error) == stop


@given(st.lists(pending, max_size=3, unique_by=lambda item: item.id))
def test_what_is_waited_for_is_read_by_reference_or_from_a_record(items: list[PendingItem]) -> None:
    assert pending_of(errors.Suspend(tuple(items))) == tuple(items)
    assert pending_of(errors.Suspend(tuple(Raw(encode(item)) for item in items))) == tuple(items)


def test_an_error_that_cannot_say_its_text_is_a_failure_like_any_other() -> None:
    class Deadly(Exception):
        def __str__(self) -> str:
            raise SystemExit(3)

    assert stops.stop_of(Deadly()) == stops.Failed("(its text cannot be shown)", "Deadly")
