"""Agents as tools that go on with their conversation at the next call."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.hard_cases.support import through_json
from ziggurat import Agent, Approve, ConfigurationError, ModelRequest, ToolCall, tool
from ziggurat.core import root
from ziggurat.flows import flow
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel
from ziggurat.tools import Toolbox


def ask(*texts: str, name: str = "helper") -> list[ToolCall]:
    """Return the calls of one reply."""
    return [tool_call(name, id=f"call-{number}", input=text) for number, text in enumerate(texts)]


class Helper:
    """An agent that answers ``re: question``, and collects the conversations that its model gets."""

    def __init__(self, name: str = "helper", **arguments: Any) -> None:
        self.asked: list[list[str]] = []
        self.agent: Agent = Agent(FunctionModel(self.answer), name=name, **arguments)

    def answer(self, request: ModelRequest) -> str:
        self.asked.append([message.text or message.role for message in request.messages])
        return f"re: {self.asked[-1][-1]}"


def boss(helper: Agent, *replies: Any, **arguments: Any) -> Agent:
    return Agent(ScriptedModel(*replies), tools=[helper.as_tool(keep_conversation=True)], name="boss", **arguments)


async def test_it_goes_on_with_its_conversation_in_the_run() -> None:
    helper = Helper()
    run = await boss(helper.agent, ask("a"), ask("b"), "so", ask("c"), "then").run("go")
    assert run.observations == ("re: a", "re: b")
    assert helper.asked == [["a"], ["a", "re: a", "b"]]
    plain = Helper()
    await Agent(ScriptedModel(ask("a"), ask("b"), "so"), tools=[plain.agent]).run("go")
    assert plain.asked == [["a"], ["b"]]


async def test_it_has_the_calls_and_results_of_its_tools() -> None:
    model = ScriptedModel(tool_call("look"), "one", "two")
    helper = Agent(model, name="helper", tools=[tool(name="look", description="Look.")(lambda: "rain")])
    await boss(helper, ask("a"), ask("b"), "so").run("go")
    assert [message.role for message in model.last.messages] == ["user", "assistant", "tool", "assistant", "user"]
    assert model.last.messages[2].tool_results[0].text == "rain"


async def test_calls_of_one_reply_do_not_see_each_other_and_are_there_for_the_next() -> None:
    helper = Helper()
    await boss(helper.agent, ask("a"), ask("b", "c"), ask("d"), "so").run("go")
    first = ["a", "re: a"]
    assert helper.asked == [["a"], [*first, "b"], [*first, "c"], [*first, "b", "re: b", "c", "re: c", "d"]]


async def test_tools_under_other_names_have_conversations_of_their_own() -> None:
    helper = Helper()
    tools = [helper.agent.as_tool(name=name, keep_conversation=True) for name in ("one", "other")]
    calls = [ask("a", name="one"), ask("b", name="other"), ask("c", name="one")]
    await Agent(ScriptedModel(*calls, "so"), tools=tools).run("go")
    assert helper.asked == [["a"], ["b"], ["a", "re: a", "c"]]


async def test_of_earlier_runs_it_has_what_the_session_has() -> None:
    helper = Helper()
    agent = boss(helper.agent, ask("a", "b"), "one", ask("c"), "two", ask("d"), "three", ask("e"), "four")
    for session in ("ann", "ann", "ben", None):
        await agent.run("go", session=session)
    earlier = ["a", "re: a", "b", "re: b"]
    assert helper.asked == [["a"], ["b"], [*earlier, "c"], ["d"], ["e"]]


async def test_a_call_that_failed_is_no_part_of_it() -> None:
    model = ScriptedModel(ValueError("ill"), "fine")
    helper = Agent(model, name="helper")
    agent = boss(helper, ask("a"), ask("b"), "so", ask("c"), "then")
    assert (await agent.run("go", session="ann")).failed_tool_calls == 1
    assert [message.text for message in model.last.messages] == ["b"]


async def test_outside_of_an_agent_each_call_is_alone() -> None:
    helper = Helper()
    box = Toolbox([helper.agent.as_tool(keep_conversation=True)])
    for _ in range(2):
        assert (await box.call("helper", {"input": "a"})).text == "re: a"
        await helper.agent.as_tool(keep_conversation=True)(ask("b")[0], root())
    assert helper.asked == [["a"], ["b"]] * 2


def test_a_flow_has_no_conversation() -> None:
    @flow
    async def double(number: int) -> int:
        return 2 * number

    with pytest.raises(ConfigurationError, match="keep_conversation"):
        double.as_tool(keep_conversation=True)


async def test_the_record_grows_with_the_number_of_calls_only() -> None:
    sizes: list[int] = []
    for count in (10, 20):
        agent = boss(Helper().agent, *[ask("word " * 100)] * count, "so", store=InMemoryStore(), max_steps=50)
        await agent.run("go", run_id="r")
        sizes.append(len(await agent.record("r")))
    assert sizes[1] < 2.1 * sizes[0]


async def test_it_waits_for_a_person_and_goes_on_in_another_process() -> None:
    store = InMemoryStore()
    questions = ["a", "b", "c"]

    def agent(kept: InMemoryStore) -> tuple[Agent, ScriptedModel]:
        pay = tool(name="pay", description="Pay.", approval=True)(lambda: "paid")
        model = ScriptedModel(
            rules=[(lambda request: request.messages[-1].text == "b", tool_call("pay"))],
            always=lambda request: f"re: {request.messages[-1].text or 'paid'}",
        )

        def lead(request: ModelRequest) -> Any:
            step = sum(message.role == "assistant" for message in request.messages)
            return [ask("a"), ask("b", "c"), ask("d"), "so"][step]

        helper = Agent(model, name="helper", tools=[pay]).as_tool(keep_conversation=True)
        return Agent(FunctionModel(lead), tools=[helper], name="boss", store=kept), model

    run = await agent(store)[0].run("go", run_id="r")
    assert [item.call.name for item in run.pending] == ["pay"]
    again, model = agent(through_json(store, "r"))
    run = await again.resume("r", {item.id: Approve() for item in run.pending}, strict=True)
    texts = [[message.text for message in request.messages] for request in model.calls]
    assert texts[0][:3] == ["a", "re: a", "b"]
    assert [text for text in texts[-1] if text in [*questions, "d"]] == ["a", "b", "c", "d"]
    assert (await again.replay("r")).messages == run.messages
    assert len(texts) == 2  # what had ended is on record


@given(st.lists(st.lists(st.sampled_from("xyz"), max_size=3), max_size=5), st.integers(0, 12))
async def test_wherever_a_run_breaks_off_it_goes_on_with_the_same_conversation(plan: list[list[str]], at: int) -> None:
    """Each conversation is: all calls of earlier replies, in order, and the question."""
    store, calls = InMemoryStore(), 0
    asked: list[list[str]] = []

    def failing(reply: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at + 1:
            raise ConnectionError("down")
        return reply

    def lead(request: ModelRequest) -> Any:
        step = sum(message.role == "assistant" for message in request.messages)
        replies = [ask(*each) or "nothing" for each in plan]
        return failing(replies[step] if step < len(replies) else "so")

    def answer(request: ModelRequest) -> Any:
        asked.append([message.text for message in request.messages])
        return failing(f"re: {request.messages[-1].text}")

    def agent(kept: InMemoryStore) -> Agent:
        helper = Agent(FunctionModel(answer), name="helper").as_tool(keep_conversation=True)
        tools = Toolbox([helper], on_error="raise")
        return Agent(FunctionModel(lead), tools=tools, name="boss", store=kept, max_steps=9)

    await agent(store).run("go", run_id="r")
    await agent(through_json(store, "r")).resume("r", strict=True)
    expected: list[list[str]] = []
    earlier: list[str] = []
    for each in plan:
        if not each:
            break
        expected += [[*earlier, question] for question in each]
        earlier += [text for question in each for text in (question, f"re: {question}")]
    assert sorted({tuple(each) for each in asked}) == sorted({tuple(each) for each in expected})
