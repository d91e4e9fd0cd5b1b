"""What teams cost beside the turns of their members, and beside the teams of agno and langgraph-supervisor.

    python -P benchmarks/teams.py                      (with agno and langgraph-supervisor, where Python has these)

CPU time in microseconds, the least of some rounds in which all alternate; all models answer at once.

- A fan-out of 1,000 members, for each member, and a debate of 5 members in 3 rounds with scores and a moderator, for
  each of its 76 calls; beside the same turns in sequence in one run: entered as the team enters them, and as
  ``agent.run()`` of a flow; and beside a bare `asyncio.gather`.
- A leader that delegates to 20 members at the same time and writes one answer, for each member.
"""

import asyncio
import gc
import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterator
from importlib.util import find_spec
from itertools import count
from typing import Any

from ziggurat.agents.agent import Agent
from ziggurat.calls.enter import enter
from ziggurat.core.context import AMBIENT, Context
from ziggurat.flows import flow
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import tool_call
from ziggurat.messages.middleware import Middleware
from ziggurat.models.scripted import ScriptedModel
from ziggurat.teams.rounds import debate, majority, parallel

ROUNDS = 5
MEMBERS, DELEGATES = 1_000, 20
REPEATED = 3

Work = Callable[[], Awaitable[object]]


def measured(works: dict[str, tuple[Work, int]]) -> dict[str, float]:
    """Return the least CPU time of each work, for each of the calls that it makes; all alternate."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(ROUNDS):
        for name, (work, calls) in works.items():
            gc.collect()
            gc.disable()
            least[name] = min(least[name], asyncio.run(_time(work)) / calls * 1e6)
            gc.enable()
    return least


async def _time(work: Work) -> float:
    await work()
    begun = time.process_time()
    await work()
    return time.process_time() - begun


def show(times: dict[str, float], above: str = "") -> None:
    """Print times, and what each is above one of them."""
    for name, each in times.items():
        more = f"{each - times[above]:+10.1f}" if above and name != above else ""
        print(f"  {name:<52}{each:8.1f}{more}", flush=True)


class Requests(Middleware):
    """Middleware that notes with what members are entered."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, AgentRequest]] = []

    async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
        """Note a request, but not that of the team itself."""
        if "/" in ctx.path:
            self.requests.append((ctx.path.rpartition("/")[2].partition("#")[0], request))


def in_sequence(members: dict[str, Agent], requests: list[tuple[str, AgentRequest]]) -> tuple[Work, Work]:
    """Return the same turns in sequence: entered as a team enters them, and run as a flow runs agents."""

    @flow
    async def entered(question: str) -> None:
        ctx = AMBIENT.get()
        assert ctx is not None
        for name, request in requests:
            await enter(members[name], AgentRequest(tuple(request.messages)), ctx.under(name))

    @flow
    async def run(question: str) -> None:
        for name, request in requests:
            await members[name].run(list(request.messages))

    return repeated(lambda: entered.run("?")), repeated(lambda: run.run("?"))


def repeated(work: Work) -> Work:
    """Return the work, done several times."""

    async def again() -> None:
        for _ in range(REPEATED):
            await work()

    return again


async def bare() -> None:
    """Gather coroutines that do nothing."""

    async def nothing() -> None:
        pass

    await asyncio.gather(*(nothing() for _ in range(MEMBERS)))


def floors() -> None:
    """Measure fan-outs and debates beside the turns of their members."""
    members = {f"m{number}": Agent(ScriptedModel(always="yes"), name=f"m{number}") for number in range(MEMBERS)}
    team = majority(*members.values())
    seen = Requests()
    asyncio.run(majority(*members.values(), middleware=[seen]).run("?"))
    entered, run = in_sequence(members, seen.requests)
    calls = MEMBERS * REPEATED
    print(f"fan-out of {MEMBERS} members, for each member")
    show(
        measured(
            {
                "its turn, entered in sequence": (entered, calls),
                "its turn, by run() in a flow": (run, calls),
                "majority": (repeated(lambda: team.run("?")), calls),
                "asyncio.gather of nothing": (repeated(bare), calls),
            }
        ),
        "its turn, entered in sequence",
    )
    rules = [("How convincing", "0.9")]
    members = {f"d{number}": Agent(ScriptedModel(rules=rules, always="Tea."), name=f"d{number}") for number in range(5)}
    members["moderator"] = Agent(ScriptedModel(always="Tea."), name="moderator")
    *debaters, moderator = members.values()
    seen = Requests()
    asyncio.run(debate(*debaters, moderator=moderator, rounds=3, middleware=[seen]).run("Tea?"))
    panel = debate(*debaters, moderator=moderator, rounds=3)
    entered, run = in_sequence(members, seen.requests)
    calls = len(seen.requests) * REPEATED
    print(f"debate of 5 members in 3 rounds with scores, for each of {len(seen.requests)} calls")
    show(
        measured(
            {
                "its turn, entered in sequence": (entered, calls),
                "its turn, by run() in a flow": (run, calls),
                "debate": (repeated(lambda: panel.run("Tea?")), calls),
            }
        ),
        "its turn, entered in sequence",
    )


def ours() -> dict[str, Work]:
    """Return teams of Ziggurat in which a leader delegates."""
    members = [Agent(ScriptedModel(always="found"), name=f"m{number}") for number in range(DELEGATES)]
    team = parallel(Agent(ScriptedModel(always="all found"), name="leader"), *members)

    def supervisor() -> Agent:
        calls = [tool_call(f"m{number}", input="look") for number in range(DELEGATES)]
        return Agent(ScriptedModel(calls, "all found"), name="leader", tools=list(members))

    return {"parallel": lambda: team.run("?"), "an agent with the members as tools": lambda: supervisor().run("?")}


def agno_team() -> Work:
    """Return a team of agno that delegates to all its members."""
    os.environ["AGNO_TELEMETRY"] = "false"
    from agno.agent import Agent as Member
    from agno.models.base import Model
    from agno.models.response import ModelResponse
    from agno.team import Team

    class Scripted(Model):
        replies: Any = None

        def _reply(self) -> ModelResponse:
            response: ModelResponse = next(self.replies)
            return response

        async def ainvoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
            return self._reply()

        def invoke(self, *args: Any, **kwargs: Any) -> ModelResponse:
            return self._reply()

        def invoke_stream(self, *args: Any, **kwargs: Any) -> Iterator[ModelResponse]:
            raise NotImplementedError

        ainvoke_stream = _parse_provider_response = _parse_provider_response_delta = invoke_stream

    def scripted(*replies: ModelResponse) -> Model:
        model = Scripted(id="scripted")
        model.replies = (replies[number % len(replies)] for number in count())
        return model

    call = {
        "id": "1",
        "type": "function",
        "function": {"name": "delegate_task_to_members", "arguments": '{"task": "look"}'},
    }
    members = [
        Member(name=f"m{number}", model=scripted(ModelResponse(role="assistant", content="found")), telemetry=False)
        for number in range(DELEGATES)
    ]
    leader = scripted(
        ModelResponse(role="assistant", tool_calls=[call]), ModelResponse(role="assistant", content="all found")
    )
    team = Team(members=list(members), model=leader, delegate_to_all_members=True, telemetry=False)
    return lambda: team.arun("?")


def langgraph_team() -> Work:
    """Return a supervisor of langgraph-supervisor that hands over to all its agents at the same time."""
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage
    from langgraph.prebuilt import create_react_agent
    from langgraph_supervisor import create_supervisor

    class Scripted(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **kwargs: Any) -> "Scripted":
            return self

    def scripted(*make: Callable[[], AIMessage]) -> Scripted:
        return Scripted(messages=(make[number % len(make)]() for number in count()))

    calls = [{"name": f"transfer_to_m{number}", "args": {}, "id": f"call-{number}"} for number in range(DELEGATES)]
    members = [
        create_react_agent(scripted(lambda: AIMessage("found")), [], name=f"m{number}") for number in range(DELEGATES)
    ]
    leader = scripted(lambda: AIMessage("", tool_calls=calls), lambda: AIMessage("all found"))
    app = create_supervisor(members, model=leader, parallel_tool_calls=True).compile()
    return lambda: app.ainvoke({"messages": [{"role": "user", "content": "?"}]})


def main() -> None:
    """Measure, and print a table."""
    logging.disable()
    floors()
    works = ours()
    if find_spec("agno"):
        works["agno: delegate_to_all_members"] = agno_team()
    if find_spec("langgraph_supervisor"):
        works["langgraph-supervisor: parallel handoffs"] = langgraph_team()
    print(f"a leader that delegates to {DELEGATES} members, for each member")
    show(measured({name: (work, DELEGATES) for name, work in works.items()}))


if __name__ == "__main__":
    main()
