"""Handoffs: who goes on, what each agent sees, when it ends, and what is on record of it."""

from collections.abc import Sequence

import pytest
from msgspec import Struct

from tests.hard_cases.support import through_json
from tests.teams.models import Answering, Reply, after_tools
from tests.wrong import wrong
from ziggurat import (
    Agent,
    Approvals,
    Approve,
    ConfigurationError,
    Deny,
    Event,
    Message,
    Middleware,
    ModelRequest,
    Runnable,
    ToolCall,
    ToolResult,
    tool,
    user,
)
from ziggurat.events import HandedOff
from ziggurat.messages import HandoffItem, Thinking, ValidationPolicy, assistant, stops, tool_call, validate
from ziggurat.messages.message import taint_of
from ziggurat.stores import InMemoryStore, Session
from ziggurat.teams import (
    Handoff,
    HandoffPolicy,
    any_handoff,
    composite_handoff,
    explicit_handoff,
    handoffs,
    multi_handoff,
    sequential_handoff,
)
from ziggurat.testing import ScriptedModel


def agent(name: str, *replies: Reply, **arguments: object) -> Agent:
    """Return an agent whose n-th call is answered with the n-th reply, the last one again and again."""
    count = iter(range(1_000))
    return Agent(Answering(lambda _: replies[min(next(count), len(replies) - 1)]), name=name, **wrong(arguments))


def to(target: str, **arguments: object) -> ToolCall:
    return tool_call(f"handoff_to_{target}", **wrong(arguments))


def asked(member: Runnable, number: int = -1) -> ModelRequest:
    model = wrong(member).model
    assert isinstance(model, Answering)
    return model.asked[number]


def names_of(messages: Sequence[Message]) -> list[tuple[str, str | None]]:
    return [(message.role, message.name) for message in messages]


async def test_the_target_goes_on_with_the_whole_conversation_once() -> None:
    triage = agent("triage", to("billing", reason="charged twice", context={"order": 17}), instructions="You triage.")
    billing = agent("billing", to("refunds"), instructions="You bill.")
    refunds = agent("refunds", "Refunded.", instructions="You refund.")
    heard: list[Event] = []
    run = await handoffs(triage, billing, refunds).run("Charged twice!", listeners=[heard.append])
    assert (run.agent, run.text, run.output, run.stop) == ("refunds", "Refunded.", "Refunded.", stops.Completed())
    assert (run.steps, run.model_calls, run.tool_calls, run.start) == (3, 3, 2, 1)
    assert names_of(run.messages) == [
        ("user", None),
        *[("assistant", "triage"), ("tool", None), ("user", "triage")],
        *[("assistant", "billing"), ("tool", None), ("user", "billing")],
        ("assistant", "refunds"),
    ]
    assert list(asked(refunds).messages) == run.messages[:-1]  # nothing twice
    assert [asked(each).instructions for each in (triage, billing, refunds)] == [
        "You triage.",
        "You bill.",
        "You refund.",
    ]
    told = run.messages[3]
    assert told.origin == "runtime"
    assert told.text.endswith('Reason: charged twice\nContext: {"order":17}')
    moves = [(each.path, each.source, each.target) for each in heard if isinstance(each, HandedOff)]
    assert moves == [("handoffs/billing", "triage", "billing"), ("handoffs/refunds", "billing", "refunds")]
    assert validate(list(run.messages), ValidationPolicy.sendable()) is None


async def test_a_handoff_is_on_record_and_its_result_taints_nothing() -> None:
    store = InMemoryStore()
    desk = handoffs(agent("a", to("b", reason="why")), agent("b", "done"), store=store)
    run = await desk.run("go", run_id="r-1")
    assert taint_of(run.messages) == ()
    entries = [item.what async for item in desk.attach("r-1").events()]
    (item,) = [wrong(each).value for each in entries if getattr(each, "path", "") == "handoffs/b/handoff"]
    assert (item["from_agent"], item["to_agent"], item["reason"]) == ("a", "b", "why")
    assert set(item) == {*HandoffItem.__struct_fields__, "type"}


async def test_a_handoff_is_among_the_items_of_the_session() -> None:
    store = InMemoryStore()
    inner = handoffs(agent("b", to("c", reason="one\ntwo", context={"n": 1})), agent("c", "c"), name="inner")
    desk = handoffs(agent("a", to("inner")), inner, store=store)
    await desk.run("go", session="s")
    session = Session("s", store)
    items = await session.get_items()
    handed = [item for item in items if isinstance(item, HandoffItem)]
    assert [(item.from_agent, item.to_agent, item.reason) for item in handed] == [
        ("a", "inner", None),
        ("inner/b", "c", "one\ntwo"),
    ]
    assert [item.id for item in await session.get_items()] == [item.id for item in items]


async def test_tools_beside_a_handoff_finish_and_of_several_the_first_is_taken() -> None:
    done: list[str] = []

    @tool
    def note(text: str) -> str:
        """Take a note."""
        done.append(text)
        return "noted"

    calls = [tool_call("note", text="x", id="1"), tool_call("handoff_to_c", id="2"), tool_call("handoff_to_b", id="3")]
    run = await handoffs(agent("a", calls, tools=[note]), agent("b", "b"), agent("c", "c")).run("go")
    assert (run.agent, done) == ("c", ["x"])
    results = {result.id: result for message in run.messages for result in message.tool_results}
    assert results["2"].error is None
    assert (results["3"].error, results["3"].text.partition(":")[0]) == ("interrupted", "not taken")
    twice = await handoffs(agent("a", [to("b"), to("b")]), agent("b", "b")).run("go")
    assert [result.error for message in twice.messages for result in message.tool_results] == [None, "interrupted"]


@pytest.mark.parametrize(("next_turn", "second"), [("stay", "b"), ("first", "a")])
async def test_who_answers_the_next_turn_is_a_setting(next_turn: str, second: str) -> None:
    store = InMemoryStore()
    desk = handoffs(agent("a", to("b"), "a again"), agent("b", "b"), next_turn=wrong(next_turn), store=store)
    assert (await desk.run("one", session="s")).agent == "b"
    run = await desk.run("two", session="s")
    assert run.agent == second
    assert [message.text for message in run.messages if message.role == "user" and not message.name] == ["one", "two"]


async def test_it_ends_at_the_most_handoffs_and_when_two_pass_it_to_and_fro() -> None:
    def cycle(count: int) -> list[Agent]:
        return [agent(str(number), to(str((number + 1) % count))) for number in range(count)]

    run = await handoffs(*cycle(3), max_handoffs=5).run("go")
    assert run.stop == stops.BudgetExceeded("handoffs", 5.0, 5.0)
    assert run.steps == 6
    run = await handoffs(*cycle(2)).run("go")
    assert (run.stop, run.steps) == (stops.LoopDetected("handoff_to_0", 4), 4)
    run = await handoffs(*cycle(2), ping_pong=None).run("go")
    assert (run.stop, run.steps) == (stops.BudgetExceeded("handoffs", 10.0, 10.0), 11)
    assert validate(list(run.messages), ValidationPolicy.sendable()) is None


async def test_policies_offer_their_tools_and_no_others() -> None:
    def offered(policy: HandoffPolicy | None) -> dict[str, list[str]]:
        members = {"a": "", "b": "About b.", "c": ""}
        chosen = any_handoff() if policy is None else policy
        return {member: [each.name for each in chosen.tools(member, members)] for member in members}

    everyone = {"a": ["handoff_to_b", "handoff_to_c"], "b": ["handoff_to_a", "handoff_to_c"]}
    assert offered(None) == {**everyone, "c": ["handoff_to_a", "handoff_to_b"]}
    assert offered(explicit_handoff("b")) == {"a": ["handoff_to_b"], "b": [], "c": ["handoff_to_b"]}
    assert offered(explicit_handoff("b", source="a", tool_name="x")) == {"a": ["x"], "b": [], "c": []}
    assert offered(multi_handoff({"x": "a", "y": "c"})) == {"a": ["y"], "b": ["x", "y"], "c": ["x"]}
    assert offered(sequential_handoff("a", "b")) == {"a": [], "b": [], "c": []}
    both = composite_handoff(explicit_handoff("b"), multi_handoff({"handoff_to_b": "c", "z": "c"}))
    assert offered(both)["a"] == ["handoff_to_b", "z"]
    first, second = any_handoff().tools("a", {"a": "", "b": "About b.", "c": ""})
    assert (first.description, second.description) == (
        "Hand off the conversation to b: About b.",
        "Hand off the conversation to c",
    )
    (taken,) = explicit_handoff("b", description="Bills.").tools("a", {"b": ""})
    assert taken.description == "Bills."


async def test_in_a_sequence_each_agent_goes_on_when_the_one_before_has_completed() -> None:
    desk = handoffs(agent("a", "A"), agent("b", "B"), agent("c", "C"), policy=sequential_handoff())
    for _ in range(2):  # a policy keeps nothing between runs
        run = await desk.run("go")
        assert (run.agent, run.text, run.steps) == ("c", "C", 3)
    partly = handoffs(agent("a", "A"), agent("b", "B"), agent("c", "C"), policy=sequential_handoff("c", "a"), first="c")
    assert (await partly.run("go")).agent == "a"
    stopped = agent("a", tool_call("handoff_to_nobody"), max_steps=1)
    run = await handoffs(stopped, agent("b", "B"), policy=sequential_handoff("a", "b")).run("go")
    assert (run.agent, run.stop) == ("a", stops.MaxSteps(1))


async def test_a_composite_asks_its_policies_in_order() -> None:
    policy = composite_handoff(explicit_handoff("c"), sequential_handoff("a", "b"))
    run = await handoffs(agent("a", "A"), agent("b", to("c")), agent("c", "C"), policy=policy).run("go")
    assert run.agent == "c"
    nobody = handoffs(agent("a", "A"), agent("b", "B"), policy=composite_handoff(), first="b")
    assert (await nobody.run("go")).agent == "b"


async def test_a_function_picks_who_begins() -> None:
    async def pick(messages: Sequence[Message]) -> str:
        return "sums" if "+" in messages[-1].text else "rest"

    desk = handoffs(agent("rest", "?"), agent("sums", "4"), first=pick, next_turn="first")
    assert [(await desk.run(text)).agent for text in ("2+2", "hm")] == ["sums", "rest"]
    with pytest.raises(ConfigurationError, match="unknown agent 'nobody'"):
        await handoffs(agent("a", "A"), first=lambda messages: "nobody").run("go")
    with pytest.raises(ConfigurationError, match="unknown agent None"):
        await handoffs(agent("a", "A"), first=wrong(lambda messages: None)).run("go")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: handoffs(), "at least 1"),
        (lambda: handoffs(agent("a", "A"), agent("a", "A")), "two members"),
        (lambda: handoffs(agent("a", "A"), policy=explicit_handoff("bb")), "unknown agent 'bb'"),
        (lambda: handoffs(agent("alpha", "A"), first="alfa"), "there are: alpha"),
        (lambda: handoffs(agent("a/b", "A")), "no '/'"),
        (lambda: handoffs(wrong("a")), "handoffs"),
        (lambda: sequential_handoff("a", "b", "a"), "once"),
        (lambda: handoffs(agent("a", "A"), policy=sequential_handoff("a", "c")), "unknown agent 'c'"),
        (lambda: handoffs(agent("a", "A"), policy=composite_handoff(sequential_handoff("c"))), "unknown agent 'c'"),
        (lambda: handoffs(agent("a", "A"), budget=wrong(3)), "budget"),
        (lambda: handoffs(agent("a", "A"), ping_pong=1), "ping_pong"),
        (lambda: handoffs(agent("a", "A"), max_handoffs=0), "max_handoffs"),
        (lambda: handoffs(agent("a", "A", tools=[named("handoff_to_b")]), agent("b", "B")), "handoff_to_b"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_made(make: object, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        wrong(make)()


def named(name: str) -> object:
    @tool(name=name)
    def function() -> str:
        """Do something."""
        return ""

    return function


async def test_a_refused_handoff_is_not_taken() -> None:
    for decision, answered in ((Approve(), "b"), (Deny("stay"), "a")):
        rules = Approvals("handoff_*")
        desk = handoffs(agent("a", to("b"), "A after all"), agent("b", "B"), approvals=rules, store="memory:")
        run = await desk.run("go", run_id="r-1")
        assert isinstance(run.stop, stops.Suspended)
        (item,) = run.pending
        assert (await desk.resume("r-1", {item.id: decision})).agent == answered
    wrongly = await handoffs(agent("a", to("b", reason=[1]), "A"), agent("b", "B")).run("go")
    assert wrongly.agent == "a"


async def test_the_target_has_the_rules_of_the_team_and_not_those_of_the_agent_before() -> None:
    class Count(Middleware):
        def __init__(self) -> None:
            self.paths: list[str] = []

        async def before_model(self, request: ModelRequest, ctx: object) -> None:
            self.paths.append(wrong(ctx).path)

    own, outer = Count(), Count()
    await handoffs(agent("a", to("b"), middleware=[own]), agent("b", "B"), middleware=[outer]).run("go")
    assert own.paths == ["handoffs/a/step-1/model"]
    assert outer.paths == ["handoffs/a/step-1/model", "handoffs/b/step-1/model"]


class City(Struct):
    name: str


async def test_a_recorded_answer_has_the_type_of_the_agent_that_gave_it() -> None:
    store = InMemoryStore()

    def desk(kept: InMemoryStore) -> Runnable:
        inner = handoffs(
            agent("c", to("d")),
            Agent(ScriptedModel('{"name":"Ur"}', output_modes=["native"]), name="d", output=City),
            name="inner",
            store=kept,
        )
        return handoffs(agent("a", to("inner")), inner, store=kept)

    run = await desk(store).run("go", run_id="r-1")
    assert (run.output, run.agent) == (City("Ur"), "inner/d")
    again = await desk(through_json(store, "r-1")).resume("r-1")
    assert (again.output, again.agent, again.messages) == (run.output, run.agent, run.messages)
    assert names_of(run.messages)[-1] == ("assistant", "inner/d")


def desk_with(visibility: object) -> tuple[Runnable, list[Agent]]:
    @tool
    def search() -> str:
        """Search."""
        return "secret finding"

    first = Agent(Answering(after_tools("A says", tool_call("search"))), name="a", tools=[search], instructions="IA")
    thought = assistant(Thinking("hm"), "B says")
    members = [first, Agent(Answering(thought), name="b", instructions="IB"), agent("c", "C says", instructions="IC")]
    policy = sequential_handoff()
    return handoffs(*members, policy=policy, next_turn="first", visibility=wrong(visibility)), members


@pytest.mark.parametrize(
    "visibility", ["everything", "replies", "own", "question", lambda messages, name: messages[:1]]
)
async def test_each_agent_sees_what_the_setting_says(visibility: object) -> None:
    desk, (_, second, third) = desk_with(visibility)
    first_run = await desk.run("question one")
    run = await desk.run("question two", history=first_run.messages)
    shown = [message.text for message in asked(third).messages]
    texts = "\n".join(shown)
    assert shown[-1].startswith("b has handed") == (not callable(visibility))
    results = [result.text for message in asked(third).messages for result in message.tool_results]
    if visibility == "everything":
        assert results == ["secret finding"] * 2
        assert {"B says", "C says"} <= set(shown)
    elif callable(visibility):
        assert shown == ["question one"]
    else:
        assert results == []
        assert ("[a] A says" in texts) == (visibility == "replies")
        assert ("question one" in texts) == (visibility != "question")
        assert ("C says" in shown) == (visibility != "question")
    for member, other in ((second, "IA"), (third, "IB")):
        assert other not in str(asked(member))
    assert not any(isinstance(part, Thinking) for message in asked(third).messages for part in message.parts)
    reply = next((message for message in asked(third).messages if message.text == "[b] B says"), None)
    assert (reply is not None) == (visibility == "replies")
    if reply is not None:  # what others have found out is data, also in their words
        assert (reply.taint, reply.name) == (("search",), "b")
    assert run.text == "C says"


@pytest.mark.parametrize("answer", [(), "text", [1], None])
async def test_a_function_that_shows_no_messages_is_refused(answer: object) -> None:
    desk, _ = desk_with(lambda messages, name: answer)
    with pytest.raises(ConfigurationError, match="visibility="):
        await desk.run("go")


@pytest.mark.parametrize("left_out", ["tool", "assistant"])
async def test_a_function_that_shows_a_conversation_that_cannot_be_sent_is_refused(left_out: str) -> None:
    def view(messages: Sequence[Message], member: str) -> list[Message]:
        return [message for message in messages if message.role != left_out]

    desk, (_, second, _) = desk_with(view)
    with pytest.raises(ConfigurationError, match="visibility="):
        await desk.run("go")
    assert not wrong(second).model.asked


async def test_a_view_may_be_async_and_ask_an_agent_which_is_recorded() -> None:
    scribe = agent("scribe", "in short: go")

    async def short(messages: Sequence[Message], member: str) -> list[Message]:
        return [user((await scribe.run("\n".join(message.text for message in messages))).text)]

    store = InMemoryStore()
    desk = handoffs(agent("a", to("b")), agent("b", "B"), visibility=short, store=store)
    run = await desk.run("go on and on", run_id="r-1")
    assert (run.text, run.model_calls) == ("B", 4)
    assert (await desk.replay("r-1")).messages == run.messages


async def test_the_result_of_a_handoff_has_the_fields_of_the_seed() -> None:
    run = await handoffs(agent("a", to("b", reason="r", context={"k": 1})), agent("b", "B")).run("go")
    (result,) = [result for message in run.messages for result in message.tool_results]
    assert isinstance(result, ToolResult)
    assert result.value() == {"handoff": "b", "ack": True, "reason": "r", "context": {"k": 1}}
    assert Handoff("b", "r") == Handoff("b", reason="r")
