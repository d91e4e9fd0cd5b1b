"""Some servers give each thought the same id: a conversation keeps the first, and can be sent on."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.samples import rows
from tests.stores.places import new_store
from ziggurat import Agent, AgentRun, Context, Event, Message, ModelRequest, ModelResponse, Runnable, Text, tool
from ziggurat.events import Delta, Dropped, Fold
from ziggurat.messages import Thinking, ToolCall, ValidationPolicy, tool_call, validate
from ziggurat.middleware import OutputGuardrail
from ziggurat.stores import Session
from ziggurat.teams import mesh, parallel, ring
from ziggurat.testing import ScriptedModel

THOUGHT = Thinking("Let me see.", "proof", id="rs_1")
SENDABLE = ValidationPolicy.sendable()


def reply(part: str | ToolCall, *more: str) -> Message:
    """Return a reply after the thought that each reply begins with."""
    texts = [Text(each) if isinstance(each, str) else each for each in (part, *more)]
    return Message("assistant", (THOUGHT, *texts))


@tool
def echo(text: str) -> str:
    return text


class Asked:
    """A model that notes what is wrong with the conversations it gets."""

    def __init__(self, *replies: Message) -> None:
        self.inner = ScriptedModel(*replies)
        self.wrong: list[object] = []

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.wrong.append(validate(request.messages, SENDABLE))
        return await self.inner(request, ctx)


def thoughts(run: AgentRun) -> list[Thinking]:
    return [part for message in run.messages for part in message.parts if isinstance(part, Thinking)]


def checked(run: AgentRun) -> AgentRun:
    assert validate(run.messages, SENDABLE) is None
    assert thoughts(run) == [THOUGHT]
    return run


@pytest.mark.parametrize(("calls", "streamed"), rows([1, 2], [False, True]))
async def test_a_later_reply_repeats_a_thought(calls: int, streamed: bool) -> None:
    made = [tool_call("echo", id=str(number), text="a") for number in range(calls)]
    model = Asked(Message("assistant", (THOUGHT, *made)), reply(made[0]), reply("end"))
    listeners: list[Any] = [lambda event: None] if streamed else []
    run = checked(await Agent(model, tools=[echo]).run("go", listeners=listeners))
    assert run.text == "end"
    assert model.wrong == [None, None, None]


async def test_the_deltas_of_a_reply_add_up_to_its_message() -> None:
    folds: dict[str, Fold] = {}

    async def listen(event: Event) -> None:
        if isinstance(event, Delta):
            folds.setdefault(event.path, Fold()).push(event.delta)
        elif isinstance(event, Dropped):
            folds[event.path].reset()

    agent = Agent(ScriptedModel(reply(tool_call("echo", text="a")), reply("end")), tools=[echo])
    run = checked(await agent.run("go", listeners=[listen]))
    said = [message for message in run.messages if message.role == "assistant"]
    assert [fold.message().parts for fold in folds.values()] == [message.parts for message in said]


@pytest.mark.usefixtures("place")
async def test_a_later_turn_of_a_session_and_its_record() -> None:
    model = Asked(reply("one"), reply("two"), reply("three"))
    agent = Agent(model, store=new_store())
    for text in ("one", "two", "three"):
        run = checked(await agent.run("go", session="s"))
        assert run.text == text
    assert model.wrong == [None] * 3
    assert (await agent.replay(run.id)).messages == run.messages


@pytest.mark.usefixtures("place")
async def test_turns_of_a_session_that_did_not_see_each_other() -> None:
    model, kept = Asked(reply("one"), reply("two"), reply("three")), new_store()
    agent = Agent(model, store=kept)
    for limit in (None, 1, None):
        checked(await agent.run("go", session=Session("s", kept, limit=limit)))
    assert model.wrong == [None] * 3


def test_a_reply_that_is_refused_and_asked_for_again() -> None:
    wrong, right = (tool_call("final_answer", id=str(value), value=value) for value in ("five", 5))
    run = checked(Agent(ScriptedModel(reply(wrong), reply(right)), output=int).run_sync("go"))
    assert run.output == 5


def test_a_reply_that_a_guardrail_refuses_several_times() -> None:
    model = Asked(reply("one"), reply("two"), reply("three"))
    guard = OutputGuardrail(lambda answer, ctx: None if answer == "three" else "say three", retries=3)
    run = checked(Agent(model, middleware=[guard]).run_sync("go"))
    assert run.text == "three"
    assert model.wrong == [None] * 3


def test_a_thought_that_is_the_whole_reply_stays_as_plain_text() -> None:
    model = ScriptedModel(reply(tool_call("echo", text="a")), Message("assistant", (THOUGHT,)))
    run = Agent(model, tools=[echo]).run_sync("go")
    assert validate(run.messages, SENDABLE) is None
    assert thoughts(run) == [THOUGHT, Thinking("Let me see.")]


def test_thoughts_that_differ_are_kept() -> None:
    other = Thinking("And now?", "proof", id="rs_2")
    model = ScriptedModel(reply(tool_call("echo", text="a")), Message("assistant", (other, Text("end"))))
    assert thoughts(Agent(model, tools=[echo]).run_sync("go")) == [THOUGHT, other]


TEAMS: dict[str, Callable[..., Runnable]] = {"ring": ring, "mesh": mesh, "parallel": parallel}


@pytest.mark.parametrize("kind", TEAMS)
def test_members_of_a_team_have_the_same_thought(kind: str) -> None:
    members = [Agent(ScriptedModel(*map(reply, "abcdef")), name=name) for name in ("first", "second")]
    checked(TEAMS[kind](*members).run_sync("go"))
