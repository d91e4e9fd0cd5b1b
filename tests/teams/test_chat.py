"""Group chats: who speaks when, what each sees, and when the chat ends."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.hard_cases.support import through_json
from tests.teams.models import Answering
from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, Message, ModelRequest, Runnable, until_tool_called
from ziggurat.errors import ServiceError
from ziggurat.messages import stops, tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.teams import TeamResult, group_chat
from ziggurat.teams.replies import name_in


def member(name: str, reply: Any = None) -> Agent:
    def count(request: ModelRequest) -> str:
        return f"{name}{sum(message.role == 'assistant' for message in request.messages) + 1}"

    return Agent(Answering(count if reply is None else reply), name=name)


def spoken(run: Any) -> list[str]:
    return [message.text for message in run.messages[run.start :] if message.role == "assistant"]


async def test_in_turn_each_sees_what_was_said_and_is_asked_to_speak() -> None:
    ann, ben = member("ann"), member("ben")
    run = await group_chat(ann, ben, turns=3).run("go")
    assert spoken(run) == ["ann1", "ben1", "ann2"]
    assert (run.text, run.agent, run.output, run.stop, run.model_calls) == ("ann2", "ann", "ann2", stops.Completed(), 3)
    model: Any = ann.model
    asked = [[message.text for message in request.messages] for request in model.asked]
    assert [texts[:3] for texts in asked] == [["go"], ["go", "ann1", "[ben] ben1"]]
    assert [request.messages[-1].role for request in model.asked] == ["user", "user"]  # nobody is asked with nothing


@pytest.mark.parametrize(
    ("replies", "said"),
    [
        (["ben", "ann", "DONE"], ["ben1", "ann1"]),
        (["I would say Ben... ben!", "prose", "**ben**", "DONE."], ["ben1", "cem1", "ben2"]),
        (["", "", "DONE"], ["ann1", "ben1"]),
        (["DONE"], []),
        (["nobody"] * 9, ["ann1", "ben1", "cem1", "ann2"]),
    ],
)
async def test_an_agent_chooses_who_speaks_and_when_it_ends(replies: list[str], said: list[str]) -> None:
    answers = iter(replies)
    moderator = member("moderator", lambda request: next(answers))
    run = await group_chat(member("ann"), member("ben"), member("cem"), speaker=moderator, turns=4).run("go")
    assert spoken(run) == said
    shown = wrong(moderator.model).asked[0].messages[-1].text
    assert "- ann\n- ben\n- cem\n" in shown


async def test_a_function_chooses_and_a_condition_ends() -> None:
    async def choose(messages: Sequence[Message]) -> str | None:
        return None if len(messages) > 3 else "ben"

    ann, ben = member("ann"), member("ben")
    assert spoken(await group_chat(ann, ben, speaker=choose).run("go")) == ["ben1", "ben2", "ben3"]
    ended = await group_chat(ann, ben, until=lambda messages: messages[-1].text == "ben1").run("go")
    assert spoken(ended) == ["ann1", "ben1"]
    with pytest.raises(ConfigurationError, match="speaker="):
        await group_chat(ann, ben, speaker=lambda messages: "nobody").run("go")
    with pytest.raises(ConfigurationError, match="at least 2"):
        group_chat(ann)


async def test_a_chat_has_no_output_if_nobody_spoke_or_the_last_answer_is_none() -> None:
    silent = await group_chat(member("ann"), member("ben"), speaker=lambda messages: None).run("go")
    assert isinstance(silent.stop, stops.StopCondition)
    model = Answering(lambda request: tool_call("look"))
    looking = Agent(model, tools=[look], stop=until_tool_called("look"), name="cem")
    called = await group_chat(member("ann"), looking, turns=2).run("go")
    assert called.stop == stops.ToolCalled("look")
    for run in (silent, called):
        with pytest.raises(ServiceError, match="stopped"):
            print(run.output)


async def look() -> str:
    return "x"


async def test_a_member_that_fails_is_noted_and_only_if_all_fail_the_run_does() -> None:
    run = await group_chat(member("ann"), member("bad", ValueError("x")), turns=4).run("go")
    assert (run.text, TeamResult.of(run).failures) == ("ann2", {"bad": "ValueError: x"})
    failed = await group_chat(member("one", ValueError("1")), member("two", ValueError("2"))).run("go")
    assert (failed.stop, failed.model_calls) == (stops.Failed("1", "ValueError"), 2)


async def test_a_chat_that_was_broken_off_goes_on_with_the_same_speakers() -> None:
    store, down = InMemoryStore(), True

    def reply(request: ModelRequest) -> Any:
        return ConnectionError("down") if down else "ben"

    def chat(kept: InMemoryStore) -> Runnable:
        moderator = member("moderator", lambda request: "ann" if len(request.messages) < 3 else reply(request))
        return group_chat(member("ann"), member("ben"), speaker=moderator, turns=3, store=kept)

    assert isinstance((await chat(store).run("go", run_id="r-1")).stop, stops.Failed)
    down = False
    again = chat(through_json(store, "r-1"))
    run = await again.resume("r-1", strict=True)
    assert spoken(run) == ["ann1", "ben1", "ben2"]
    assert (await again.replay("r-1")).messages == run.messages


@pytest.mark.parametrize(
    ("text", "name"), [("", None), ("annotate", None), ("ann", "ann"), ("'ann'", "ann"), ("ben, not ann", "ben")]
)
def test_a_name_is_found_as_a_word(text: str, name: str | None) -> None:
    assert name_in(text, {"ann": 1, "ben": 2}) == name
