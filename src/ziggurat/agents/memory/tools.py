"""Tools with which a model uses its agent's memory: `remember`, `recall` and `forget`."""

from ziggurat.agents.memory.active import ACTIVE_MEMORY, ActiveMemory, Note, StoredNote, keep, taint_in
from ziggurat.agents.memory.showing import doubtful, notes_on, one_line
from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.memory.record import MemoryRecord
from ziggurat.messages.message import MEMORY
from ziggurat.messages.parts import ToolResult
from ziggurat.tools.function import FunctionTool, tool

READ, WRITE = "custom:memory_read", "custom:memory_write"
"""The permissions that the tools declare."""

_MOST = 20


@tool(effect="repeatable", permissions=[WRITE])
async def remember(fact: str, ctx: Context, about: str | None = None, replaces: str | None = None) -> ToolResult:
    """Remember a fact for later.

    Args:
        fact: What is to be remembered, as a whole sentence.
        about: The one thing that the fact says, such as "home town of Ann". An earlier fact about it is replaced.
        replaces: The id of an earlier fact that is no longer true; it is replaced.
    """
    if not fact.strip():
        raise ToolError("there is nothing to remember: fact is empty", kind="invalid_arguments")
    mind, old = _mind(ctx), (replaces or "").strip("[] ")
    if old and not await mind.open(ctx).history(old):
        raise ToolError(f"there is no memory {old!r}; recall shows their ids in brackets", kind="not_found")
    note = Note(
        content=fact.strip(),
        kind="semantic",
        key=about or None,
        replaces=old or None,
        origin="model",
        taint=taint_in(ctx),
    )
    (stored,) = await keep(mind, [note], ctx)
    records = [*stored.doubted, *stored.nearest, *([] if stored.replaced is None else [stored.replaced])]
    return _memory_result(_outcome(stored), {tool for record in records for tool in record.taint})


@tool(effect="none", permissions=[READ])
async def recall(query: str, ctx: Context, limit: int = 5) -> ToolResult:
    """Look up what was remembered earlier.

    Args:
        query: The text to search for.
        limit: How many memories at most.
    """
    mind = _mind(ctx)
    memories = await mind.open(ctx).recall(query, limit=min(max(limit, 1), _MOST))
    if not memories:
        return _memory_result("Nothing about that is remembered.")
    lines = [_line(each.record, doubt=doubtful(each, mind.bounds)) for each in memories]
    return _memory_result("\n".join(lines), {tool for each in memories for tool in each.record.taint})


@tool(effect="repeatable", permissions=[WRITE])
async def forget(memory_id: str, ctx: Context) -> ToolResult:
    """Put a memory away that is wrong or no longer wanted.

    Args:
        memory_id: The id of the memory, as recall shows it in brackets.
    """
    memory = _mind(ctx).open(ctx)
    if await memory.forget(memory_id.strip("[] ")):
        return _memory_result(f"The memory {memory_id} is forgotten.")
    if await memory.history(memory_id.strip("[] ")):
        return _memory_result(f"The memory {memory_id} was forgotten before.")
    raise ToolError(f"there is no memory {memory_id!r}; recall shows their ids in brackets", kind="not_found")


def _outcome(stored: StoredNote) -> str:
    """Return the result of storing a fact, as text for the model."""
    if stored.known:
        return f"This is known already as {stored.record.id}."
    text = f"I will remember: {_sentence(stored.record.content)}"
    if stored.replaced is not None:
        text += f" It takes the place of: {_sentence(stored.replaced.content)}"
    doubted, nearest = (" ".join(map(_line, records)) for records in (stored.doubted, stored.nearest))
    if doubted:
        text += f" Both are stored, but they may contradict each other: {doubted}"
    if nearest and stored.replaced is None:
        text += f" The nearest of the other facts: {nearest}"
    if doubted or (nearest and stored.replaced is None):
        text += " If the new fact means that one of these is no longer true, remember it again and name the old one in "
        text += "`replaces`."
    return text


def memory_tools() -> tuple[FunctionTool, ...]:
    """Return the tools `remember`, `recall` and `forget`, for an agent with the middleware `Remembering`.

    They declare the permissions ``custom:memory_write`` and ``custom:memory_read``. What a model remembers after it has
    read results of tools is tainted by those tools. `forget` archives: nothing is deleted.
    """
    return (remember, recall, forget)


def _mind(ctx: Context) -> ActiveMemory:
    mind = ctx.scope.get(ACTIVE_MEMORY)
    if mind is None:
        raise ToolError("no memory was given to this agent: add middleware=[Remembering(store, owner)]")
    return mind


def _memory_result(text: str, taint: "set[str] | None" = None) -> ToolResult:
    """Return a result whose origin marks it as a memory, with its taint; no tool can have a name like that origin."""
    return ToolResult("", "", text, None, f"{MEMORY}:{','.join(sorted(taint or ()))}")


def _line(record: MemoryRecord, *, doubt: bool = False) -> str:
    return f"{_sentence(record.content)} ({notes_on(record, doubt=doubt)}) [{record.id}]"


def _sentence(text: str) -> str:
    text = one_line(text)
    return text if text.endswith((".", "!", "?")) else f"{text}."
