"""An agent for long work, and its parts: a list of tasks, and large results in files."""

import typing
from collections import Counter
from collections.abc import Sequence
from typing import Any, Unpack

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.agents.agent import Agent, AgentArguments
from ziggurat.agents.compaction.middleware import Compaction
from ziggurat.agents.runnable import Runnable
from ziggurat.code.workspace import OF_RUN, Workspace
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.agent import Out
from ziggurat.messages.message import ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import Model, ModelRequest
from ziggurat.sandbox.files import MAX_FILE
from ziggurat.skills.registry import Skills
from ziggurat.tools.function import FunctionTool, tool
from ziggurat.tools.toolbox import Toolbox

if typing.TYPE_CHECKING:
    from ziggurat.agents.output import OutputOf

MAX_STEPS = 1_000  # the number of steps of an agent for long work that is given no other

TODOS = f"{OF_RUN}todo.md"

_MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


class Todo(Struct, frozen=True):
    """A task on the list.

    Attributes:
        content: The task.
        status: How far it is.
    """

    content: str
    status: typing.Literal["pending", "in_progress", "completed"] = "pending"


class Todos(Middleware):
    """Gives an agent a list of tasks, with the tool `write_todos`.

    ::

        todos = Todos(workspace)
        agent = Agent(model, tools=[*workspace.tools, todos.tool], middleware=[todos])

    The list is the file ``.run/todo.md`` of the workspace, on the record of the run. As a middleware it adds the list
    to the instructions when the conversation does not show it any more, such as after a compaction.

    """

    passed_as = "todos = Todos(workspace), tools=[todos.tool], middleware=[todos]"
    """How they are given to an agent, for errors."""

    @checked
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace

    @property
    def tool(self) -> FunctionTool:
        """The tool `write_todos`."""
        return tool(name="write_todos", effect="none")(self._write)

    async def _write(self, todos: list[Todo], ctx: Context) -> str:
        """Write the list of your tasks, in place of the one before. Begin work of several steps with it.

        Args:
            todos: All tasks, in order.
        """
        text = "\n".join(f"- [{_MARKS[todo.status]}] {' '.join(todo.content.split())}" for todo in todos)
        await self.workspace.write(TODOS, text, ctx)
        counts = Counter[str](todo.status for todo in todos)
        return f"{len(todos)} tasks: {', '.join(f'{counts[status]} {status}' for status in _MARKS)}"

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Return the request with the list, if the conversation does not show it."""
        text = self.workspace.text_of(TODOS, ctx)
        calls = (call for message in reversed(request.messages) for call in message.tool_calls)
        if not text or any(call.name == "write_todos" for call in calls):  # usually one of the last
            return None
        return replace(request, instructions=f"{request.instructions or ''}\n\nYour tasks ({TODOS}):\n{text}".strip())


class LargeResults(Middleware):
    """Stores results of tools that are too long for a prompt as files; the model gets a part and the path.

    ::

        Agent(model, tools=[search, *workspace.tools], middleware=[LargeResults(workspace)])

    The files are on the record of the run, below ``.run/results/``. The model reads them with the tools of the
    workspace.

    Args:
        workspace: The workspace that the files are for.
        limit: The most characters of a result that stays as it is; about four are a token.
        shown: The characters that are shown of a longer one.
    """

    passed_as = "middleware=[LargeResults(workspace)]"
    """How it is given to an agent, for errors."""

    @checked
    def __init__(self, workspace: Workspace, *, limit: PositiveInt = 80_000, shown: PositiveInt = 2_000) -> None:
        self.workspace = workspace
        self.limit = limit
        self.shown = shown

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult | None:
        """Return a result with a part of its text, if it is too long."""
        text = result.text
        if len(text) <= self.limit or not isinstance(result.content, str):
            return None
        path = f"{OF_RUN}results/{result.name}-{digest(ctx.path)[:8]}.txt"
        data = text.encode(errors="replace")
        await self.workspace.write(path, data[:MAX_FILE].decode(errors="ignore"), ctx)
        head, end = text[: self.shown * 3 // 4], text[-(self.shown // 4) :]
        cut = f"; the file has the first {MAX_FILE} bytes" if len(data) > MAX_FILE else ""
        note = f"[{len(text) - len(head) - len(end)} characters left out; all {len(text)} are in {path}{cut}]"
        return replace(result, content=f"{head}\n{note}\n{end}")


@typing.overload
def deep_agent(
    model: str | Model,
    *,
    output: "OutputOf[Out]",
    workspace: Workspace | None = None,
    agents: Sequence[Runnable] = (),
    skills: Skills | None = None,
    compaction: Compaction | None = None,
    **arguments: Unpack[AgentArguments],
) -> Agent[Out]: ...
@typing.overload
def deep_agent(
    model: str | Model,
    *,
    output: None = None,
    workspace: Workspace | None = None,
    agents: Sequence[Runnable] = (),
    skills: Skills | None = None,
    compaction: Compaction | None = None,
    **arguments: Unpack[AgentArguments],
) -> Agent[str]: ...
@checked
def deep_agent(
    model: str | Model,
    *,
    workspace: Workspace | None = None,
    agents: Sequence[Runnable] = (),
    skills: Skills | None = None,
    compaction: Compaction | None = None,
    output: Any = None,
    **arguments: Unpack[AgentArguments],
) -> Agent[Any]:
    """Return an agent for long work, made of parts that any agent may have.

    ::

        agent = deep_agent(model, workspace=Workspace("project/"), agents=[researcher], instructions="You review code.")

    It has the tools of a workspace, `write_todos`, one tool for each of `agents`, which works with a conversation of
    its own and shares the files, and those in `tools`; long results are put into files, and the conversation is
    compacted.

    Args:
        model: The model.
        workspace: The files; by default on the record of the run.
        agents: Agents that it may give a task to.
        skills: Skills that it may read.
        compaction: How its conversation is shortened; by default at 80 % of the model's window.
        output: The type of its answer, as for `Agent`.
        arguments: The others of `Agent`; `max_steps` is 1,000 by default.
    """
    workspace = workspace or Workspace()
    todos = Todos(workspace)
    given = arguments.pop("tools", ())
    if isinstance(given, Toolbox):
        raise ConfigurationError("deep_agent takes a list of tools, to which it adds its own; got a Toolbox")
    arguments["tools"] = [*workspace.tools, todos.tool, *([] if skills is None else [skills]), *agents, *given]
    if arguments.get("max_steps") is None:
        arguments["max_steps"] = MAX_STEPS
    own = (todos, LargeResults(workspace), compaction or Compaction())
    arguments["middleware"] = [*arguments.get("middleware", ()), *own]
    agent: Agent[Any] = Agent(model, output=output, **arguments)
    return agent
