"""A list of tasks that an agent writes for itself, and that outlives a compaction of its conversation."""

from collections import Counter
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ziggurat.code.workspace import OF_RUN, Workspace
from ziggurat.core.context import Context
from ziggurat.core.settings import checked
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest
from ziggurat.tools.function import FunctionTool, tool

TODOS = f"{OF_RUN}todo.md"
"""The path of the list in the workspace."""

_MARKS = {"pending": " ", "in_progress": "~", "completed": "x"}


class Todo(Struct, frozen=True):
    """A task on the list.

    Attributes:
        content: The task.
        status: How far it is.
    """

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Todos(Middleware):
    """Gives an agent a list of tasks, with the tool `write_todos`.

    ::

        todos = Todos(workspace)
        agent = Agent(model, tools=[*workspace.tools, todos.tool], middleware=[todos])

    The list is the file ``.run/todo.md`` of the workspace, on the record of the run. As a middleware it adds the list
    to the instructions when the conversation does not show it any more, such as after a compaction.

    Args:
        workspace: The workspace with the file.
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
        shown = request.messages.note(self, _Shown)
        shown.read_on(request.messages)
        text = None if shown.call else self.workspace.text_of(TODOS, ctx)
        if not text:
            return None
        return replace(request, instructions=f"{request.instructions or ''}\n\nYour tasks ({TODOS}):\n{text}".strip())


class _Shown:
    """Whether a conversation shows a call that wrote the list; each message is looked at once."""

    def __init__(self) -> None:
        self.call = False
        self._read = 0

    def read_on(self, messages: Transcript) -> None:
        if not self.call:
            new = messages[self._read :]
            self.call = any(call.name == "write_todos" for message in new for call in message.tool_calls)
        self._read = len(messages)
