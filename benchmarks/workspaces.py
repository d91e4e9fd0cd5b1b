"""Three of deepagents' published examples, and the same agents here: lines, and what the prompts hold.

    python -m benchmarks.workspaces FOLDER             (`examples` of a checkout of deepagents; with deepagents, ruff
                                                        and the packages of these examples, where Python has them)

Both sides follow one script, with the instructions, skills and functions of the examples. Lines are those that make the
agent, without imports and without functions that both sides share. A prompt is all that is sent with a call:
instructions, messages, calls and schemas of tools; four characters are a token.
"""

import ast
import inspect
import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from datetime import date
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]
from benchmarks.code_mode import length

from ziggurat.agents.agent import Agent
from ziggurat.code.deep import deep_agent
from ziggurat.code.workspace import Workspace
from ziggurat.messages.message import tool_call
from ziggurat.models.scripted import ScriptedModel
from ziggurat.skills.registry import Skills

FOUND = "Agents write code, run it and read the result. " * 250
"""The text of a page that a search finds."""

PEOPLE = [("Ada", "Canada"), ("Bo", "Norway"), ("Cy", "Canada")]


class Do(NamedTuple):
    """A step of a script: a call of a tool, of a skill or of another agent."""

    kind: str
    name: str
    arguments: dict[str, Any]


Script = Sequence[Do | str]


def _call(tool: str, **arguments: Any) -> Do:
    return Do("tool", tool, arguments)


def _write(path: str, text: str) -> Do:
    return Do("write", path, {"text": text})


SCRIPTS: dict[str, Script] = {
    "text-to-sql-agent": [
        Do("skill", "query-writing", {}),
        _call("sql_db_list_tables"),
        _call("sql_db_schema", table_names="customer"),
        _call("sql_db_query", query="SELECT COUNT(*) FROM customer WHERE country = 'Canada'"),
        "There are 2 customers from Canada.",
    ],
    "content-builder-agent": [
        Do("skill", "blog-post", {}),
        Do("agent", "researcher", {"text": "Research agents and save to research/agents.md"}),
        _call("web_search", query="AI agents", max_results=3),
        _call("web_search", query="AI agents in software", max_results=3),
        _write("research/agents.md", FOUND[:2_000]),
        "It is in research/agents.md.",
        _write("blogs/agents/post.md", FOUND[:4_000]),
        "The post is in blogs/agents/post.md.",
    ],
    "deep_research": [
        _write("research_request.md", "Compare agents that write code."),
        Do("agent", "research-agent", {"text": "Research agents that write code."}),
        *[_call("tavily_search", query="agents"), _call("think_tool", reflection="One more search is needed.")] * 2,
        f"Findings: {FOUND[:1_500]}",
        _write("final_report.md", FOUND[:4_000]),
        "The report is in final_report.md.",
    ],
}


# -- here ------------------------------------------------------------------------------------------------------------


def text_to_sql_agent(model: Any, folder: Path, theirs: Any) -> Agent[Any]:
    database = sqlite3.connect(f"file:{folder}/chinook.db?mode=ro", uri=True, check_same_thread=False)

    def sql_db_list_tables() -> str:
        """List the tables of the database."""
        return ", ".join(row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'"))

    def sql_db_schema(table_names: str) -> str:
        """Return the definitions of tables, with three rows of each.

        Args:
            table_names: Their names, with commas between them.
        """
        shown = []
        for name in table_names.split(","):
            found = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", [name.strip()]).fetchone()
            if found:
                shown += [found[0], *map(str, database.execute(f'SELECT * FROM "{name.strip()}" LIMIT 3'))]
        return "\n".join(shown) or "There is no such table."

    def sql_db_query(query: str) -> str:
        """Run a query, which cannot change the database."""
        return str(database.execute(query).fetchall())

    return deep_agent(
        model,
        instructions=(folder / "AGENTS.md").read_text(),
        skills=Skills(folder / "skills"),
        tools=[sql_db_list_tables, sql_db_schema, sql_db_query],
        workspace=Workspace(folder),
    )


def content_builder_agent(model: Any, folder: Path, theirs: Any) -> Agent[Any]:
    workspace = Workspace(folder)
    agents = [
        Agent(
            model,
            name=name,
            description=each["description"],
            instructions=each["system_prompt"],
            tools=[*(getattr(theirs, tool).func for tool in each["tools"]), *workspace.tools],
        )
        for name, each in yaml.safe_load((folder / "subagents.yaml").read_text()).items()
    ]
    return deep_agent(
        model,
        instructions=(folder / "AGENTS.md").read_text(),
        skills=Skills(folder / "skills"),
        tools=[theirs.generate_cover.func, theirs.generate_social_image.func],
        agents=agents,
        workspace=workspace,
    )


def deep_research(model: Any, folder: Path, theirs: Any) -> Agent[Any]:
    tools = [theirs.tavily_search.func, theirs.think_tool.func]
    delegation = theirs.SUBAGENT_DELEGATION_INSTRUCTIONS.format(
        max_concurrent_research_units=3, max_researcher_iterations=3
    )
    researcher = Agent(
        model,
        name="research-agent",
        description="Delegate research to the sub-agent researcher. Only give this researcher one topic at a time.",
        instructions=theirs.RESEARCHER_INSTRUCTIONS.format(date=date.today()),
        tools=tools,
    )
    instructions = f"{theirs.RESEARCH_WORKFLOW_INSTRUCTIONS}\n\n{'=' * 80}\n\n{delegation}"
    return deep_agent(model, tools=tools, instructions=instructions, agents=[researcher])


def run_ours(make: Callable[[Any, Path, Any], Agent[Any]], script: Script, folder: Path, theirs: Any) -> list[int]:
    """Return the characters of each prompt of a run here."""

    def reply(each: Do | str) -> Any:
        if isinstance(each, str):
            return each
        named: dict[str, Any] = {
            "skill": ("read_skill", {"name": each.name}),
            "write": ("write_file", {"path": each.name, **each.arguments}),
            "agent": (each.name, {"input": each.arguments.get("text")}),
        }
        name, arguments = named.get(each.kind, (each.name, each.arguments))
        return tool_call(name, **arguments)

    model = ScriptedModel(*map(reply, script))
    run = make(model, folder, theirs).run_sync("Do it.")
    assert run.text == script[-1], run
    failed = [result.text for message in run.messages for result in message.tool_results if result.error]
    assert not failed, failed
    return [length(request) for request in model.calls]


# -- deepagents ------------------------------------------------------------------------------------------------------


def scripted(script: Script, lengths: list[int]) -> Any:
    """Return a model of LangChain that follows a script, and notes the characters of its prompts."""
    from langchain_core.language_models.chat_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.utils.function_calling import convert_to_openai_tool

    def call(each: Do, number: int) -> Any:
        named: dict[str, Any] = {
            "skill": ("read_file", {"file_path": f"/skills/{each.name}/SKILL.md"}),
            "write": ("write_file", {"file_path": f"/{each.name}", "content": each.arguments.get("text")}),
            "agent": ("task", {"description": each.arguments.get("text"), "subagent_type": each.name}),
        }
        name, arguments = named.get(each.kind, (each.name, each.arguments))
        return {"name": name, "args": arguments, "id": f"call-{number}"}

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **settings: Any) -> Any:
            return self.bind(tools=[convert_to_openai_tool(each)["function"] for each in tools])

        def _generate(self, messages: Any, stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
            parts = [json.dumps(settings.get("tools", []))]
            for message in messages:
                parts += [message.text, *(json.dumps(each["args"]) for each in getattr(message, "tool_calls", ()))]
            each = script[len(lengths)]
            lengths.append(sum(map(len, parts)))
            calls = [] if isinstance(each, str) else [call(each, len(lengths))]
            message = AIMessage("" if calls else each, tool_calls=calls)
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted()


class Theirs(NamedTuple):
    """An example as it is published: the module that makes the agent, how, and the parts whose lines count."""

    module: str
    make: Callable[[Any], Any]
    counted: tuple[str, ...]
    shared: str


PUBLISHED = {
    "text-to-sql-agent": Theirs("agent", lambda it: it.create_sql_deep_agent(), ("create_sql_deep_agent",), "agent"),
    "content-builder-agent": Theirs(
        "content_writer",
        lambda it: it.create_content_writer(),
        ("load_subagents", "create_content_writer"),
        "content_writer",
    ),
    "deep_research": Theirs("agent", lambda it: it.agent, (), "research_agent"),
}


def run_theirs(each: Theirs, script: Script, folder: Path) -> tuple[list[int], Any]:
    """Return the characters of each prompt of a run of an example, and the module with its functions."""
    import deepagents
    import tavily

    made, lengths = deepagents.create_deep_agent, list[int]()
    model = scripted(script, lengths)

    def create(**arguments: Any) -> Any:
        agents = [{**agent, "model": model} for agent in arguments.pop("subagents", None) or ()]
        return made(**{**arguments, "model": model, "subagents": agents})

    class Search:
        def search(self, *arguments: Any, **settings: Any) -> Any:
            return {"results": [{"url": "https://example.org", "title": "Agents", "content": FOUND[:3_000]}]}

    os.environ.update(dict.fromkeys(("ANTHROPIC_API_KEY", "TAVILY_API_KEY", "GOOGLE_API_KEY"), "none"))
    deepagents.create_deep_agent, tavily.TavilyClient = create, Search
    sys.path.insert(0, str(folder))
    try:
        if each.shared == "research_agent":
            import_module("research_agent.tools").fetch_webpage_content = lambda url: FOUND  # type: ignore[attr-defined]
        agent = each.make(import_module(each.module))
        shared = import_module(each.shared)
    finally:
        deepagents.create_deep_agent = made
        sys.path.remove(str(folder))
        for name in [name for name in sys.modules if name.split(".")[0] in (each.module, each.shared)]:
            del sys.modules[name]
    result = agent.invoke({"messages": [{"role": "user", "content": "Do it."}]})
    failed = [each.text for each in result["messages"] if each.type == "tool" and "error" in each.text[:20].lower()]
    assert result["messages"][-1].text == script[-1], result["messages"][-1]
    assert not failed, failed
    return lengths, shared


# -- both ------------------------------------------------------------------------------------------------------------


def lines(source: str, names: tuple[str, ...] = ()) -> int:
    """Return the lines of code of some functions of a module, of all of it by default."""
    from examples.apps.ports.lines import count

    body = [
        each
        for each in ast.parse(source).body
        if (not names or getattr(each, "name", "") in names) and not isinstance(each, (ast.Import, ast.ImportFrom))
    ]
    return count(ast.unparse(ast.Module(body, [])))


OURS = {each.__name__: each for each in (text_to_sql_agent, content_builder_agent, deep_research)}


def main(examples: Path) -> None:
    """Print the figures of both sides."""
    missing = [name for name in ("deepagents", "tavily", "langchain_community", "ruff") if find_spec(name) is None]
    if missing:
        sys.exit(f"nothing to compare with: {', '.join(missing)} is not installed here")
    print(f"{'lines; tokens of the first prompt, of all':<42}{'here':>22}{'deepagents':>24}")
    for name, published in PUBLISHED.items():
        with tempfile.TemporaryDirectory() as folder:
            copies = [Path(shutil.copytree(examples / name, f"{folder}/{side}")) for side in ("theirs", "ours")]
            for copy in copies:
                with sqlite3.connect(copy / "chinook.db") as database:
                    database.execute("CREATE TABLE customer (name TEXT, country TEXT)")
                    database.executemany("INSERT INTO customer VALUES (?, ?)", PEOPLE)
            source = (copies[0] / f"{published.module}.py").read_text()
            theirs, shared = run_theirs(published, SCRIPTS[name], copies[0])
            make = OURS[name.replace("-", "_")]
            ours = run_ours(make, SCRIPTS[name], copies[1], shared)
            shown = ""
            for count, sizes in ((lines(inspect.getsource(make)), ours), (lines(source, published.counted), theirs)):
                shown += f"{count:>6}{sizes[0] // 4:>8,}{sum(sizes) // 4:>10,}"
            print(f"{name:<40}{shown}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
