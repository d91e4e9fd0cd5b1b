"""Large results of tools: stored as files, with their beginning and their end in the prompt."""

from msgspec.structs import replace

from ziggurat.code.workspace import OF_RUN, Workspace
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.messages.message import ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.sandbox.files import MAX_FILE


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

    Raises:
        ConfigurationError: a number is not valid.
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
