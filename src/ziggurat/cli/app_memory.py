"""The memory commands, their options and their help."""

from typing import Annotated

import typer

_HELP = {"help_option_names": ["-h", "--help"]}
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


_Of = Annotated[str, typer.Option("--owner", "-o", metavar="NAME", help="Whose memories.")]
_Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Memories, by the ids that audit shows.")]


def memory_commands() -> typer.Typer:
    """Return the group of memory commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, context_settings=_HELP)
    group.callback()(_memory)
    group.command()(audit)
    group.command()(search)
    for command in (forget, erase, undo, prune, consolidate, compress, reembed, export):
        group.command()(command)
    group.command("import")(import_)
    return group


def _memory() -> None:
    """Search, audit, change and move what agents remember.

    \b
    Examples:
      ziggurat run --memory me "Remember that I am allergic to nuts."
      ziggurat memory search "nuts"
      ziggurat memory audit --owner me
      ziggurat memory export memories.jsonl
    """


def audit(
    owner: _Owner = None,
    json: Annotated[bool, typer.Option("--json", help="Write all findings as one JSON object.")] = False,
    store: _Store = None,
) -> None:
    """Report problems in a memory, and its growth.

    Duplicates, doubts and changes are listed; nothing is changed. The findings are hints: check them before you forget
    anything.

    \b
    Examples:
      ziggurat memory audit
      ziggurat memory audit --owner me --store sqlite:///agents.db
      ziggurat memory audit --json | jq '.duplicates[].texts'
    """
    from ziggurat.cli.memories import audit_memory

    raise typer.Exit(audit_memory(store, owner, json=json))


def search(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to search for, in quotes.")],
    owner: _Owner = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, metavar="N", help="The maximum number.")] = 10,
    json: Annotated[bool, typer.Option("--json", help="Write one JSON object per line.")] = False,
    store: _Store = None,
) -> None:
    """List the memories that match a query best, best first.

    Words are compared, and meaning too if the extra local is installed. Nothing counts as recalled.

    \b
    Examples:
      ziggurat memory search "night train"
      ziggurat memory search --owner me --limit 3 "allergies"
      ziggurat memory search --json "train" | jq -r .content
    """
    from ziggurat.cli.memories import search_memory

    raise typer.Exit(search_memory(query, store, owner, limit, json=json))


def forget(ids: _Ids, owner: _Of, store: _Store = None) -> None:
    """Archive memories: no recall finds them, but undo and history do.

    \b
    Example:
      ziggurat memory forget --owner me 5f0c
    """
    from ziggurat.cli.memories import change_memory

    raise typer.Exit(change_memory(store, owner, "forget", ids))


def erase(ids: _Ids, owner: _Of, store: _Store = None) -> None:
    """Delete memories for good, with all they replaced.

    \b
    Example:
      ziggurat memory erase --owner me 5f0c
    """
    from ziggurat.cli.memories import change_memory

    raise typer.Exit(change_memory(store, owner, "erase", ids))


def undo(ids: _Ids, owner: _Of, store: _Store = None) -> None:
    """Bring back what memories replaced, or what was merged into them.

    \b
    Example:
      ziggurat memory undo --owner me 5f0c
    """
    from ziggurat.cli.memories import change_memory

    raise typer.Exit(change_memory(store, owner, "undo", ids))


def prune(owner: _Of, store: _Store = None) -> None:
    """Archive long-term memories that are all but forgotten.

    \b
    Example:
      ziggurat memory prune --owner me
    """
    from ziggurat.cli.memories import change_memory

    raise typer.Exit(change_memory(store, owner, "prune"))


def consolidate(owner: _Of, store: _Store = None) -> None:
    """Merge old episodes about one subject, and long-term memories that say the same.

    \b
    Example:
      ziggurat memory consolidate --owner me
    """
    from ziggurat.cli.memories import change_memory

    raise typer.Exit(change_memory(store, owner, "consolidate"))


def compress(
    owner: _Of,
    limit: Annotated[int, typer.Option("--max", min=0, metavar="N", help="Up to N episodes nothing is done.")] = 1000,
    store: _Store = None,
) -> None:
    """Replace many old, unimportant episodes by a few notes.

    The latest ten, the important ones and facts stay. undo brings back what a note stands for; audit lists the notes.

    \b
    Example:
      ziggurat memory compress --owner me --max 500
    """
    from ziggurat.cli.memories import compress_memory

    raise typer.Exit(compress_memory(store, owner, limit))


def export(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write; - for standard output.")],
    owner: _Owner = None,
    vectors: Annotated[bool, typer.Option("--vectors/--no-vectors", help="With the vectors.")] = True,
    store: _Store = None,
) -> None:
    """Write memories, with their history, to a file.

    Each line is one memory as JSON. Archived memories are included, so that history and undo work where the file is
    imported. Without vectors the file is much smaller; reembed makes them again.

    \b
    Examples:
      ziggurat memory export memories.jsonl
      ziggurat memory export --owner me --no-vectors - | gzip > me.jsonl.gz
    """
    from ziggurat.cli.memory_transfer import export_to

    raise typer.Exit(export_to(file, store, owner, vectors=vectors))


def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file that export wrote; - for standard input.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace memories that are stored already.")] = False,
    store: _Store = None,
) -> None:
    """Store the memories of a file that export wrote.

    Memories that are stored already stay as they are, so a file can be imported twice. If a line is damaged, the
    memories before it may be stored.

    \b
    Examples:
      ziggurat memory import memories.jsonl --store postgresql://agents@db.example/agents
      gunzip < me.jsonl.gz | ziggurat memory import -
    """
    from ziggurat.cli.memory_transfer import import_from

    raise typer.Exit(import_from(file, store, overwrite=overwrite))


def reembed(
    owner: _Owner = None,
    store: _Store = None,
    renew_all: Annotated[bool, typer.Option("--all", help="Make all vectors anew.")] = False,
) -> None:
    """Make vectors that are missing or of another model.

    The model is that of the extra local. It can be stopped at any time and run again.

    \b
    Example:
      ziggurat memory reembed
    """
    from ziggurat.cli.memory_transfer import reembed_memory

    raise typer.Exit(reembed_memory(store, owner, renew_all=renew_all))
