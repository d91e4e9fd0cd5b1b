"""Long work stays under its prompt: large results are files, tasks outlive a compaction, and a record has both."""

from pathlib import Path
from typing import Any

import pytest

from tests.samples import amount
from ziggurat import Agent, ConfigurationError, ToolCall, tool
from ziggurat.code import LargeResults, Workspace, deep_agent
from ziggurat.compaction import Compaction, Drop, over_tokens
from ziggurat.messages import ModelRequest, Text, ToolResult, tool_call
from ziggurat.testing import ScriptedModel

TASKS = [
    {"content": "read", "status": "completed"},
    {"content": "  write\nit ", "status": "in_progress"},
    {"content": "b"},
]


@tool
def search(query: str) -> str:
    """Search."""
    return f"begin {query}\n" + "lorem ipsum\n" * 85_000 + f"end {query}"


def size(request: ModelRequest) -> int:
    """Return the tokens of a prompt, as providers count them: about a quarter of its characters."""
    texts = [
        part for message in request.messages for part in (message.text, *(each.text for each in message.tool_results))
    ]
    return sum(map(len, (*texts, request.instructions or ""))) // 4


async def test_a_long_run_with_large_results_stays_under_its_prompt(tmp_path: Path) -> None:
    steps = amount(20, 200)
    model = ScriptedModel(
        tool_call("write_todos", todos=TASKS),
        *(tool_call("search", query=f"q{number}") for number in range(steps)),
        "done",
    )
    agent = deep_agent(
        model,
        tools=[search],
        compaction=Compaction(over_tokens(8_000), reduce=Drop()),
        store=f"sqlite:///{tmp_path}/runs.db",
    )
    run = await agent.run("go", run_id="r")
    files = await agent.files("r")
    assert run.has_final_answer
    assert max(map(size, model.calls)) < 10_000
    assert sorted(files[path] for path in files if "search" in path) == sorted(
        search.function(f"q{n}") for n in range(steps)
    )
    assert files[".run/todo.md"] == "- [x] read\n- [~] write it\n- [ ] b"
    shown = [(request.instructions or "", "write_todos" in str(request.messages)) for request in model.calls[1:]]
    assert all(("- [~] write it" in instructions) != in_conversation for instructions, in_conversation in shown)
    assert not all(in_conversation for _, in_conversation in shown)


async def test_a_large_result_shows_its_ends_and_its_path() -> None:
    workspace = Workspace()

    def find(request: ModelRequest) -> ToolCall:
        path = request.messages[-1].tool_results[0].text.partition("are in ")[2].partition("]")[0]
        return tool_call("grep", text="end q", files=path)

    run = await Agent(
        ScriptedModel(tool_call("search", query="q"), find, "done"),
        tools=[search, *workspace.tools],
        middleware=[LargeResults(workspace, limit=1_000, shown=100)],
    ).run("go")
    long, found = run.observations
    assert long.startswith("begin q")
    assert long.endswith("end q")
    assert len(long) < 300
    assert found.endswith(": end q")


async def test_short_results_errors_and_parts_stay() -> None:
    @tool
    def short(kind: str) -> str | ToolResult:
        """Return a result of a kind."""
        if kind == "error":
            raise ValueError("x" * 900)
        return ToolResult("", "", (Text("y" * 2_000),)) if kind == "parts" else "z" * 1_000

    calls = [tool_call("short", kind=kind) for kind in ("text", "parts", "error")]
    run = await Agent(
        ScriptedModel(*calls, "done"), tools=[short], middleware=[LargeResults(Workspace(), limit=1_000)]
    ).run("go")
    assert [len(text) for text in run.observations[:2]] == [1_000, 2_000]
    assert run.observations[2].count("x") >= 900


async def test_an_agent_for_long_work_is_made_of_parts_that_any_agent_may_have() -> None:
    workspace = Workspace(files={"a.md": "a"})
    helper = Agent(ScriptedModel("it is a", per_run=True), name="reader", description="Reads.")
    model = ScriptedModel(tool_call("reader", input="read"), "done")
    agent = deep_agent(model, workspace=workspace, agents=[helper], tools=[search], instructions="Be brief.")
    run = await agent.run("go")
    assert run.observations == ("it is a",)
    names = {each.name for each in model.calls[0].tools}
    assert names == {
        *("ls", "read_file", "write_file", "edit_file", "glob", "grep", "write_todos", "reader", "search"),
    }
    assert model.calls[0].instructions == "Be brief."


@pytest.mark.parametrize("given", [{"workspace": "proj/"}, {"folder": "proj/"}])
def test_wrong_arguments_are_refused_in_its_name(given: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, TypeError), match="deep_agent"):
        deep_agent(ScriptedModel("done"), **given)
