"""``ziggurat memory``: searches, forgets and exports memories."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from ziggurat.cli import options, outcome
from ziggurat.cli.memories import embedder_here, opened_memories
from ziggurat.cli.terminal import age_of, note, write, write_json, write_table
from ziggurat.core.codec import encode
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError
from ziggurat.databases.files import private_opener
from ziggurat.memory.agent_memory import AgentMemory
from ziggurat.memory.record import MemoryRecord
from ziggurat.memory.search import FLOOR
from ziggurat.memory.store import Hit, Query
from ziggurat.memory.upkeep import export_memories
from ziggurat.memory.vectorizing import embed, try_embed
from ziggurat.messages.formatting import shortened

_Owner = Annotated[str | None, typer.Option("--owner", "-o", metavar="NAME", help="Only memories of this owner.")]
_Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Where memories are stored, such as sqlite:///agents.db; by default with the runs: $ZIGGURAT_STORE, else "
        "a database in your data directory.",
    ),
]

_FIELDS = ("id", "owner", "kind", "content", "importance", "tags", "origin", "taint", "created", "used", "uses")

memory: typer.Typer = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@memory.callback()
def _memory() -> None:
    """Search, forget and export what agents remember.

    \b
    Examples:
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat memory search "nuts"
      ziggurat memory export memories.jsonl
    """


@memory.command()
def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for, in quotes.")],
    owner: _Owner = None,
    limit: options.Limit = 10,
    json: options.JsonRows = False,
    store: _Store = None,
) -> None:
    """List the memories that match a query best, best first.

    Words are compared, and meaning too if the extra local is installed. Nothing counts as recalled.

    \b
    Examples:
      ziggurat memory search --owner me --limit 3 "allergies"
    """
    if not query.strip():
        raise ConfigurationError('no search text given; example: ziggurat memory search "night train"')
    hits = asyncio.run(_hits(query, store, owner, limit))
    if json:
        for hit in hits:
            write_json(encode(_found(hit)))
    elif hits:
        write_table([_row(hit.record) for hit in hits])
    else:
        note("no memory matches")


async def _hits(query: str, store: str | None, owner: str | None, limit: int) -> list[Hit]:
    async with opened_memories(store) as memories:
        embedder = embedder_here() if await memories.count(owner=owner) else None
        context = root("memory")
        embeddings = await try_embed(embed(embedder, [query], "query", context), context) if embedder else None
        return await memories.search(
            Query(
                owner=owner,
                text=query,
                embedding=None if embeddings is None else embeddings.vectors[0],
                embedder="" if embeddings is None else embeddings.model,
                limit=limit,
                floor=FLOOR,
            )
        )


def _found(hit: Hit) -> dict[str, object]:
    fields = {name: getattr(hit.record, name) for name in _FIELDS}
    return {**fields, "similarity": hit.similarity, "text_score": hit.text_score}


def _row(record: MemoryRecord) -> tuple[str, ...]:
    source = f"  (from the tool {', '.join(record.taint)})" if record.taint else ""
    return record.id, record.owner, record.kind, age_of(record.created), shortened(record.content, 200) + source


@memory.command()
def forget(
    ids: Annotated[list[str], typer.Argument(metavar="ID...", help="Memories, by the ids that search shows.")],
    owner: Annotated[str, typer.Option("--owner", "-o", metavar="NAME", help="Whose memories.")],
    store: _Store = None,
) -> int:
    """Archive memories: no recall finds them any more. Exit code: 1 if one was not found.

    \b
    Example:
      ziggurat memory forget --owner me 98fa4d44a7dccd763c790a93d0b2b66d
    """

    async def forgotten() -> int:
        async with opened_memories(store) as memories:
            return await AgentMemory(memories, owner).forget(*ids)

    count = asyncio.run(forgotten())
    write(f"archived: {count}")
    if missing := len(set(ids)) - count:
        note(f"not found among the memories of {owner} in use: {missing}; ziggurat memory search shows their whole ids")
    return outcome.STOPPED if missing else outcome.COMPLETED


@memory.command()
def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - for standard output.")],
    owner: _Owner = None,
    vectors: Annotated[bool, typer.Option("--vectors/--no-vectors", help="With the vectors.")] = True,
    store: _Store = None,
) -> None:
    """Write memories, with their history, to a file.

    Each line is one memory as JSON. Archived memories are included. Without vectors the file is much smaller. A program
    imports it with import_memories of ziggurat.memory.

    \b
    Examples:
      ziggurat memory export memories.jsonl
      ziggurat memory export --owner me --no-vectors - | gzip > me.jsonl.gz
    """

    async def exported(put: Callable[[bytes], object]) -> int:
        count = 0
        async with opened_memories(store) as memories:
            async for line in export_memories(memories, owner=owner, vectors=vectors):
                put(line)
                count += 1
        return count

    if file == "-":
        asyncio.run(exported(write_json))
        return
    with _replacing(Path(file)) as put:
        count = asyncio.run(exported(put))
    write(f"exported: {count}")


@contextmanager
def _replacing(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Open a file for writing that replaces another one only when it is complete."""
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb", opener=private_opener) as file:
            yield file.write
        part.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
