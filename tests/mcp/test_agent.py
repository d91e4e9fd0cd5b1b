"""Tools of servers in runs of agents: named, checked, approved, asked about, recorded and continued."""

import json
import logging
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.serving import http, stdio
from ziggurat import (
    Agent,
    Approvals,
    Approve,
    ConfigurationError,
    Context,
    Message,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
)
from ziggurat.errors import MissingExtra
from ziggurat.events import ToolDelta
from ziggurat.mcp import mcp
from ziggurat.messages.agent import Answer, Decision, Deny
from ziggurat.stops import Failed
from ziggurat.tools import tool


class Model:
    """A model that makes the calls it is given, one in a reply, and keeps what it was asked."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self.calls = calls
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        self.requests.append(request)
        made = sum(message.role == "tool" for message in request.messages)
        if made < len(self.calls):
            name, arguments = self.calls[made]
            return ModelResponse(Message("assistant", (ToolCall(f"c{made}", name, arguments),)), "tool_calls")
        return ModelResponse(Message("assistant", (Text("done"),)))

    @property
    def offered(self) -> list[str]:
        return [spec.name for spec in self.requests[-1].tools]


def results(run: Any) -> list[Any]:
    return [part for message in run.messages if message.role == "tool" for part in message.parts]


async def test_a_run_uses_a_tool_and_records_where_its_result_is_from() -> None:
    model = Model(("echo", '{"text": "hello"}'), ("refuse", "{}"), ("echo", "{}"))
    async with stdio() as server:
        run = await Agent(model, tools=[server]).run("Go")
    said, refused, wrong = results(run)
    assert (said.text, said.name, said.origin, said.error) == ("hello", "echo", "mcp:test/echo", None)
    assert (refused.text, refused.error) == ("it went wrong", "permanent")
    assert wrong.error == "invalid_arguments"  # found here: the server was not asked


async def test_a_model_reads_how_a_result_breaks_its_schema() -> None:
    model = Model(("measure", '{"result": {"structuredContent": {"degrees": "warm"}}}'), ("measure", "{}"))
    async with stdio() as server:
        run = await Agent(model, tools=[server]).run("Go")
    assert [each.error for each in results(run)] == ["permanent", "permanent"]
    assert "degrees" in results(run)[0].text
    assert run.text == "done"


async def test_the_extra_that_is_missing_is_named_when_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    model = Model()
    with pytest.raises(MissingExtra) as missing:
        await Agent(model, tools=[mcp("/no/such/program")]).run("Go")
    assert missing.value.extra == "mcp"
    assert not model.requests


async def test_a_broken_tool_is_left_out_with_a_warning_and_names_are_made_to_fit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = Model(("___etc_pass_wd", "{}"))
    with caplog.at_level(logging.WARNING, "ziggurat"):
        async with stdio() as server:
            run = await Agent(model, tools=[server]).run("Go")
    assert "broken" in caplog.text
    assert not {"broken", "no schema"} & {*model.offered}
    assert all(name.isascii() and "/" not in name for name in model.offered)
    assert results(run)[0].text == "../etc/pass wd"  # as the server knows it


async def test_schemas_that_explode_cost_their_tools_and_nothing_else() -> None:
    began = time.monotonic()
    arguments = json.dumps({"a": "a" * 5_000 + "b"})
    model = Model(("echo", '{"text": "hello"}'), *((f"hostile_{number}", arguments) for number in range(8)))
    async with stdio("schemas=hostile") as server:
        run = await Agent(model, tools=[server]).run("Go")
    assert results(run)[0].text == "hello"
    assert run.has_final_answer
    assert time.monotonic() - began < 20
    assert not {f"hostile_{number}" for number in (2, 3, 4)} & {*model.offered}


async def test_references_in_a_schema_are_offered_and_hold() -> None:
    model = Model(("refers", '{"a": -1}'), ("refers", '{"a": 1}'))
    async with stdio(only=["refers"]) as server:
        run = await Agent(model, tools=[server]).run("Go")
    assert [each.error for each in results(run)] == ["invalid_arguments", None]
    assert model.requests[0].tools[0].parameters["$defs"] == {"n": {"type": "integer", "minimum": 0}}


async def test_names_that_two_have_get_the_name_of_the_server_before_them() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "own"

    model = Model(("look", "{}"), ("a_look", "{}"), ("b_echo", '{"text": "b"}'))
    async with stdio(name="a", only=["look", "echo"]) as a, stdio(name="b", only=["echo"]) as b:
        run = await Agent(model, tools=[look, a, b]).run("Go")
        assert sorted(model.offered) == ["a_echo", "a_look", "b_echo", "look"]
        assert [each.origin for each in results(run)] == ["look", "mcp:a/look", "mcp:b/echo"]
        with pytest.raises(ConfigurationError, match="same name"):
            await Agent(model, tools=[a, stdio(name="a")], debug=True).run("Go")
    async with stdio(prefix=True, only=["echo"]) as server:
        await Agent(model := Model(), tools=[server]).run("Go")
        assert model.offered == ["test_echo"]


async def test_effects_are_as_set_or_as_the_server_says() -> None:
    found: dict[str, Any] = {}

    async def run(**options: Any) -> None:
        async with stdio(only=["echo", "look", "destroy"], **options) as server:
            await Agent(model := Model(), tools=[server]).run("Go")
            found.update({spec.name: spec.effect for spec in model.requests[-1].tools})

    await run()
    assert found == {"echo": "repeatable", "look": "none", "destroy": "once"}
    await run(effect={"echo": "once"})
    assert found == {"echo": "once", "look": "none", "destroy": "once"}
    await run(effect="none")
    assert {*found.values()} == {"none"}


async def test_a_person_agrees_to_a_call_and_the_run_goes_on_after_the_server_was_started_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    model = Model(("look", "{}"), ("destroy", "{}"))
    server = stdio(f"log={log}", approval=["destroy"])
    agent = Agent(model, tools=[server], store=f"sqlite:///{tmp_path}/runs.db")
    run = await agent.run("Go", run_id="r")
    assert [item.call.name for item in run.pending] == ["destroy"]
    await server.close()  # and with it the process
    again = Agent(model, tools=[stdio(f"log={log}", approval=["destroy"])], store=f"sqlite:///{tmp_path}/runs.db")
    run = await again.resume("r", {run.pending[0].id: Approve()})
    assert run.text == "done"
    assert log.read_text().split() == ["look", "destroy"]
    assert (await again.replay("r")).text == "done"
    assert log.read_text().split() == ["look", "destroy"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_question_of_a_server_is_one_of_the_run(era: str, tmp_path: Path) -> None:
    model = Model(("ask", "{}"))
    store = f"sqlite:///{tmp_path}/runs.db"
    async with stdio(f"era={era}") as server:
        agent = Agent(model, tools=[server], store=store)
        decisions: list[Decision] = [Answer({"name": "Ada"}), Deny("too private")]
        for number, decision in enumerate(decisions):
            run = await agent.run("Go", run_id=f"r{number}")
            (item,) = run.pending
            assert "test" in item.reason
            assert "Your name?" in item.reason
            run = await agent.resume(f"r{number}", {item.id: decision})
            assert run.text == "done"
            answer = results(run)[0].text
            assert ("Ada" in answer) == (number == 0)
            assert ("decline" in answer) == ("too private" in answer) == (number == 1)


async def test_a_call_that_acts_once_only_is_not_made_again_when_its_server_dies(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with stdio(f"log={log}", effect={"die": "once"}) as server:
        agent = Agent(Model(("die", "{}"), ("die", "{}")), tools=[server], store=f"sqlite:///{tmp_path}/runs.db")
        run = await agent.run("Go", run_id="r")
        assert [item.interrupted for item in run.pending] == [True]  # a person is asked whether it happened
    assert log.read_text().split() == ["die"]


async def test_a_run_goes_on_with_the_tools_it_began_with() -> None:
    """What a server lists is recorded: a run that is continued needs no list of a server that is gone."""
    async with http() as (behind, server):
        model = Model(("look", "{}"))
        agent = Agent(model, tools=[server], store="memory:")
        await agent.run("Go", run_id="r")
        await behind.stop()
        assert (await agent.replay("r")).text == "done"
        run = await Agent(model, tools=[server]).run("Go")
        assert isinstance(run.stop, Failed)
        assert "test" in run.stop.error
        await behind.start()


async def test_a_server_that_is_not_required_may_be_away() -> None:
    model = Model()
    run = await Agent(model, tools=[mcp("/no/such/program", required=False)]).run("Go")
    assert (run.text, model.offered) == ("done", [])


async def test_of_many_tools_a_model_is_shown_those_that_it_has_searched_for() -> None:
    model = Model(("search_tools", '{"query": "tool 77"}'), ("more_77", '{"text": "found"}'))
    async with stdio("tools=100") as server:
        agent = Agent(model, tools=[server], store="memory:")
        run = await agent.run("Go", run_id="r", session="s")
        assert results(run)[1].text == "found"
        assert [len(request.tools) for request in model.requests] == [1, 11, 11]
        assert "more_77" in model.offered
        assert "more_99" in model.requests[0].tools[0].description
        model.calls = ()
        await agent.run("Go on", session="s")
        assert "more_77" in model.offered  # found earlier in the conversation


async def test_progress_is_emitted() -> None:
    heard: list[str] = []

    def listen(event: Any) -> None:
        if isinstance(event, ToolDelta):
            heard.append(event.text)

    async with stdio() as server:
        await Agent(Model(("progress", "{}")), tools=[server]).run("Go", listeners=[listen])
    assert heard == ["step 0", "step 1", "step 2"]


async def test_descriptions_hide_nothing() -> None:
    async with stdio() as server:
        tools = await server.tools()
        assert tools[0].description == "Says it again."


@pytest.mark.parametrize(
    "settings",
    [{"approval": ["cuont"]}, {"effect": {"cuont": "once"}}, {"only": ["echo", "coutn"]}],
    ids=lambda each: next(iter(each)),
)
async def test_a_setting_that_names_no_tool_is_refused_before_anything_is_called(settings: dict[str, Any]) -> None:
    model = Model(("count", "{}"))
    async with stdio(**settings) as server:
        with pytest.raises(ConfigurationError, match="did you mean 'count'"):
            await Agent(model, tools=[server]).run("Go")


async def test_a_rule_that_names_no_tool_of_a_server_is_refused() -> None:
    async with stdio() as server:
        with pytest.raises(ConfigurationError, match="did you mean 'count'"):
            await Agent(Model(("count", "{}")), tools=[server], approvals=Approvals("counnt")).run("Go")


@pytest.mark.parametrize("names", [["coun*"], ["count"], ["test_count"], True], ids=str)
async def test_an_approval_holds_for_patterns_and_for_both_names(names: Any) -> None:
    async with stdio(approval=names, prefix=True) as server:
        run = await Agent(Model(("test_count", "{}")), tools=[server]).run("Go")
    assert [item.call.name for item in run.pending] == ["test_count"]
