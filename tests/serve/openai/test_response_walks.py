"""Agents asked by OpenAI Responses until they have answered: whatever they call, live and on record are the same."""

import random
from pathlib import Path
from typing import Any

import pytest
from openai.types.responses import Response

from tests.samples import amount
from tests.serve.openai.test_openai import HELLO, Said, Talk, clerk, talking
from tests.serve.openai.test_stored_responses import same_fields
from ziggurat import Agent, Usage, tool
from ziggurat.events import TextDelta, ThinkingDelta
from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

CALLS = ("look", "wander", "slip", "pay", "nothing", "weather", "helper", "buyer")


@tool
def look(place: str) -> str:
    """Look."""
    return f"seen {place}"


@tool
async def wander(place: str) -> str:
    """Wander."""
    return f"been {place}"


@tool
def slip(place: str) -> str:
    """Slip."""
    raise ValueError(f"slipped {place}")


@tool(approval=True)
def pay(place: str) -> str:
    """Pay."""
    return f"paid {place}"


def agent_of(steps: list[list[str]]) -> Agent:
    """Return an agent whose steps call these tools."""
    helping = ScriptedModel(always=lambda _: "helped", usage=Usage(input=1, output=1, requests=1))
    helper = Agent(helping, name="helper", description="Helps.")
    number = iter(range(1000))

    def buy(request: Any) -> Any:
        paid = request.messages[-1].role == "tool"
        return "bought" if paid else tool_call("pay", place=f"shop-{next(number)}")

    buyer = Agent(
        ScriptedModel(always=buy, usage=Usage(input=2, output=1, requests=1)),
        name="buyer",
        description="d",
        tools=[pay],
    )
    replies = [
        [
            ThinkingDelta(f"Thought {at}."),
            TextDelta(f"Step {at}."),
            *(_call(name, f"{at}-{n}") for n, name in enumerate(names)),
        ]
        for at, names in enumerate(steps)
    ]
    return clerk(*replies, "Done.", tools=[look, wander, slip, pay, helper, buyer])


def _call(name: str, place: str) -> Any:
    if name in ("helper", "buyer"):
        return tool_call(name, id=place, input=place)
    return tool_call(name, id=place, **({"city": place} if name == "weather" else {"place": place}))


async def walk(talk: Talk, chance: random.Random) -> list[Said]:
    """Ask, then approve, deny and send results, some at a time, until the agent has answered."""
    given = [await talk.ask(HELLO, tools=True)]
    while items := list(_answers(given[-1], chance)):
        assert len(given) < 50
        chosen = chance.sample(items, chance.randint(1, len(items)))
        given.append(await talk.ask(*chosen, tools=True, previous_response_id=given[-1].reply.id))
    return given


def _answers(said: Said, chance: random.Random) -> Any:
    for item in said.reply.output:
        if item.type == "function_call":
            yield {"type": "function_call_output", "call_id": item.call_id, "output": "rain"}
        elif item.type == "mcp_approval_request":
            yield {"type": "mcp_approval_response", "approval_request_id": item.id, "approve": chance.random() < 0.7}


@pytest.mark.parametrize("seed", range(amount(4, 16)))
async def test_whatever_an_agent_calls_live_and_on_record_are_the_same(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    steps = [chance.choices(CALLS, k=chance.randint(0, 4)) or ["look"] for _ in range(chance.randint(1, 3))]
    store = {"store": f"sqlite:///{tmp_path}/runs.db"} if seed % 2 else {}
    streamed = seed % 4 < 2
    async with talking(agent_of(steps), wire="responses", streamed=streamed, **store) as (talk, server):
        given = await walk(talk, chance)
        last, run_id = given[-1], given[0].run_id
        assert (last.text or "").endswith("Done.")
        assert {said.run_id for said in given} == {run_id}
        read = await talk.client.responses.retrieve(last.reply.id)
        assert same_fields(read) == same_fields(last.reply)
        Response.model_validate((await server.client.get(f"/v1/responses/{last.reply.id}")).json())
        items = [item.id for said in given for item in said.reply.output if item.type != "mcp_approval_request"]
        assert len(set(items)) == len(items)
        usage = (await server.get(f"/runs/{run_id}"))["usage"]
        tokens = [said.tokens for said in given if said.tokens]
        assert [sum(each) for each in zip(*tokens, strict=True)] == [usage["input"], usage["output"]]
        done = [
            item
            for said in given
            for item in said.reply.output
            if item.type == "mcp_call" and item.status != "incomplete"
        ]
        own = [name for names in steps for name in names if name != "weather"]
        assert sorted(item.name for item in done) == sorted(own)
        whole = await talk.client.responses.retrieve(f"resp_{run_id}")
        assert [item.name for item in whole.output if item.type == "mcp_call"] == own
