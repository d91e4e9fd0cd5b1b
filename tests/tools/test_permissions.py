"""Permissions: tools may do what was granted, and agents below never more."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from ziggurat import Agent, Approvals, Approve, ConfigurationError, Context, Denied, Modify, tool
from ziggurat.agents import Decision, Environment, PendingItem
from ziggurat.messages import ToolSpec, tool_call
from ziggurat.testing import HandClock, ScriptedModel
from ziggurat.tools import PermissionLog
from ziggurat.tools.permissions import GRANTS, PERMISSIONS, PermissionCheck, check, narrow_grants

NAMES = st.sets(st.sampled_from([*sorted(PERMISSIONS), "custom:mail", "custom:x"])).map(frozenset)


def _spec(*permissions: str) -> ToolSpec:
    return ToolSpec("act", permissions=permissions)


def test_a_tool_that_declares_nothing_needs_nothing() -> None:
    check(_spec(), Context("run"))


def test_without_a_grant_it_is_denied_and_told_what_is_missing() -> None:
    with pytest.raises(Denied, match="file_read, network"):
        check(_spec("network", "file_read"), Context("run"))
    ctx = Context("run").within(GRANTS, frozenset({"network"}))
    with pytest.raises(Denied, match="file_read"):
        check(_spec("network", "file_read"), ctx)
    check(_spec("network"), ctx)


@pytest.mark.parametrize("name", ["netwrk", "", "custom", "Network", "*"])
def test_a_grant_of_no_known_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown permission"):
        narrow_grants(Context("run"), frozenset({name}))


@given(NAMES, NAMES, NAMES)
def test_who_stands_beneath_never_has_more(one: frozenset[str], two: frozenset[str], three: frozenset[str]) -> None:
    ctx = Context("run")
    for grants in (one, two, three):
        ctx = ctx.within(GRANTS, narrow_grants(ctx, grants))
    assert ctx.scope[GRANTS] == one & two & three


@tool(permissions=["network"])
def fetch() -> str:
    return "fetched"


@tool(permissions=[])
def add() -> str:
    return "added"


def look() -> str:
    """Look."""
    return "looked"


def _agent(*names: str, **options: Any) -> Agent:
    calls = [tool_call(name, id=f"c{number}") for number, name in enumerate(names)]
    return Agent(ScriptedModel(calls, "Done.", per_run=True), tools=[fetch, add, look], name="desk", **options)


def _ran(agent: Agent, **options: Any) -> tuple[str, ...]:
    return agent.run_sync("go", **options).observations


def test_a_run_gets_no_more_than_it_is_granted() -> None:
    missing = "tool 'fetch' denied: missing permissions: network"
    assert _ran(_agent("fetch"), grants=["network"]) == ("fetched",)
    assert _ran(_agent("fetch"), grants=[]) == (missing,)
    assert _ran(_agent("fetch", grants=[]), grants=["network"]) == (missing,), "the agent has less"


def test_tools_that_do_not_say_what_they_need_are_denied_where_grants_were_given() -> None:
    seen = _ran(_agent("look", "add"), grants=["network"])
    assert seen[0].startswith("tool 'look' denied: it does not declare what it needs")
    assert seen[1] == "added", "it declares that it needs nothing"
    assert _ran(_agent("look")) == ("looked",)
    assert _ran(_agent("look", grants=["network"])) == ("looked",)


def test_what_a_run_was_granted_holds_beneath_and_cannot_be_widened() -> None:
    inner = _agent("fetch", "look")

    @tool(permissions=[])
    async def ask() -> str:
        return " ".join((await inner.run("go", grants=[*PERMISSIONS])).observations)

    outer = Agent(ScriptedModel(tool_call("ask"), "Done."), tools=[ask], grants=["network"])
    (seen,) = outer.run_sync("go", grants=["file_read"]).observations
    assert "missing permissions: network" in seen
    assert "it does not declare" in seen


def test_every_check_is_written_down() -> None:
    log = PermissionLog()
    clock = HandClock()
    environment = Environment(clock=clock, permission_log=log)
    _ran(_agent("fetch", "look", "add", "flie"), grants=["network", "file_read"], environment=environment)
    assert [(entry.tool, entry.allowed) for entry in log] == [
        ("fetch", True),
        ("look", False),
        ("add", True),
        ("flie", False),
    ]
    entry = next(iter(log))
    path = "desk/step-1/tool-1:fetch"
    assert entry == PermissionCheck("desk", path, "fetch", ("network",), ("network",), (), clock.now())
    assert [entry.missing for entry in log if not entry.allowed] == [("[tool declares nothing]",), ("[no such tool]",)]
    assert (log.checks, log.denials, len(log)) == (4, 2, 4)
    assert repr(log) == "PermissionLog(checks=4, denials=2)"


def test_an_audit_denies_nothing_and_is_bounded() -> None:
    log = PermissionLog()
    assert _ran(_agent("fetch", "look"), environment=Environment(permission_log=log)) == ("fetched", "looked")
    assert [(entry.tool, entry.allowed) for entry in log] == [("fetch", True), ("look", True)]
    log = PermissionLog(2)
    _ran(_agent("fetch", "add", "fetch"), grants=[], environment=Environment(permission_log=log))
    assert [entry.tool for entry in log] == ["add", "fetch"]
    assert (log.checks, log.denials) == (3, 2)
    with pytest.raises(ConfigurationError, match="size"):
        PermissionLog(0)


@pytest.mark.parametrize("decision", [Approve(), Modify("{}")])
async def test_permissions_are_checked_again_where_a_run_goes_on(decision: Decision) -> None:
    agent = _agent("fetch", approvals=Approvals("fetch"))
    run = await agent.run("go", grants=["network"])
    decisions = {item.id: decision for item in run.pending}
    assert (await agent.resume(run.id, decisions, grants=[])).observations == (
        "tool 'fetch' denied: missing permissions: network",
    )


def test_what_no_person_may_see_is_denied_before_one_is_asked() -> None:
    asked: list[PendingItem] = []

    def agree(item: PendingItem) -> Approve:
        asked.append(item)
        return Approve()

    gate = Approvals("*", approver=agree)
    assert "denied" in _ran(_agent("fetch", approvals=gate), grants=[])[0]
    assert asked == []
    with pytest.raises(ConfigurationError, match="unknown permission 'netwrk'"):
        _ran(_agent("fetch"), grants=["netwrk"])
