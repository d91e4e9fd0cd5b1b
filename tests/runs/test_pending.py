from tests.agents.support import elsewhere
from ziggurat import Agent, Approve, Context, Key, tool
from ziggurat.agents import PendingItem
from ziggurat.journal import Store
from ziggurat.messages import tool_call
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

DB: Key[str] = Key("db")


def _agent(store: Store | None, name: str = "agent") -> Agent:
    @tool(approval=True)
    async def pay(to: str, ctx: Context) -> str:
        return f"{to} {ctx.scope[DB]}"

    calls = [tool_call("pay", id="1", to="ada"), tool_call("pay", id="2", to="bob")]
    return Agent(
        ScriptedModel(calls, always="done", per_run=True),
        tools=[pay],
        store=store,
        name=name,
        instructions=_instructions,
    )


async def _instructions(ctx: Context) -> str:
    return ctx.scope[DB]


async def _waits(agent: Agent, run_id: str) -> tuple[PendingItem, ...]:
    return (await agent.run("go", run_id=run_id, deps={DB: "x"})).pending


async def test_what_waits_is_listed_without_dependencies_and_nothing_is_written() -> None:
    async def go(store: InMemoryStore | None) -> None:
        agent = _agent(store)
        assert await agent.pending() == {}
        first, second = await _waits(agent, "a"), await _waits(agent, "b")
        before = await agent.record("a")
        assert await agent.pending() == {"a": first, "b": second}
        assert list(await agent.pending(limit=1)) == ["a"]
        assert await agent.record("a") == before
        if store is not None:
            other = _agent(elsewhere(store, "a"), name="other")
            assert await other.pending() == {}
            assert set(await _agent(elsewhere(store, "a")).pending()) == {"a", "b"}
        await agent.resume("b", {item.id: Approve() for item in second}, deps={DB: "x"})
        assert await agent.pending() == {"a": first}

    for store in (None, InMemoryStore()):
        await go(store)


async def test_calls_below_an_agent_of_an_agent_are_listed_too() -> None:
    inner = _agent(None, name="inner")
    outer = Agent(ScriptedModel(tool_call("inner", input="x"), "done"), tools=[inner], store=InMemoryStore())
    run = await outer.run("go", run_id="r", deps={DB: "x"})
    assert await outer.pending() == {"r": run.pending}
    assert [item.call.name for item in run.pending] == ["pay", "pay"]
