"""The rows of a graph in a SQLite database."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from ziggurat.databases.sqlite.connection import SqliteConnection
from ziggurat.knowledge.entities import Entity, Relation
from ziggurat.knowledge.graph import unknown

TABLES = (
    """CREATE TABLE IF NOT EXISTS knowledge (
        place INTEGER PRIMARY KEY AUTOINCREMENT, graph TEXT NOT NULL, source TEXT NOT NULL, target TEXT NOT NULL,
        kind TEXT NOT NULL, changed INTEGER NOT NULL, value TEXT, UNIQUE (graph, source, target, kind))""",
    "CREATE INDEX IF NOT EXISTS knowledge_by_change ON knowledge (graph, changed)",
    "CREATE INDEX IF NOT EXISTS knowledge_by_target ON knowledge (graph, target)",
)
"""One row for each entity, with its id as source and no target, and one for each relation. `place` is the order of
declaration, `changed` a number that grows with each change. A removed one keeps a row without a value, so that other
processes notice the removal."""

_PUT = """INSERT INTO knowledge (graph, source, target, kind, changed, value) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (graph, source, target, kind) DO UPDATE SET changed = excluded.changed, value = excluded.value"""
_OF = "graph = ? AND (source = ? OR target = ?)"
_ONE = "graph = ? AND source = ? AND target = ? AND (? IS NULL OR kind = ?) AND target != ''"
_entity = msgspec.json.Decoder(Entity)
_relation = msgspec.json.Decoder(Relation)


class Row(Struct, frozen=True, array_like=True):
    """The latest change of an entity or a relation."""

    place: int
    source: str
    target: str
    kind: str
    changed: int
    value: Entity | Relation | None


class Rows:
    """The rows of one graph; all methods must be called in the thread of the connection."""

    def __init__(self, database: SqliteConnection, graph: str) -> None:
        self._database = database
        self._graph = graph

    def since(self, changed: int) -> list[Row]:
        """Return what changed after the given change: first removals, then entities, then relations."""
        rows = self._database.execute(
            "SELECT place, source, target, kind, changed, value FROM knowledge WHERE graph = ? AND changed > ? "
            "ORDER BY value IS NOT NULL, target != '', place",
            (self._graph, changed),
        )
        return [
            Row(place, source, target, kind, number, _read(target, value))
            for place, source, target, kind, number, value in rows.fetchall()
        ]

    def put(self, things: Sequence[Entity | Relation], *, together: bool) -> None:
        """Write entities and relations: all of them or none."""
        self._check(things)
        change = self._next()
        keys = [_key(thing) for thing in things]
        if together:
            things = [self._merge(thing, key) for thing, key in zip(things, keys, strict=True)]
        self._database.many(
            "DELETE FROM knowledge WHERE graph = ? AND source = ? AND target = ? AND kind = ? AND value IS NULL",
            [(self._graph, *key) for key in keys],
        )
        values = [msgspec.json.encode(thing).decode() for thing in things]
        self._database.many(_PUT, [(self._graph, *key, change, value) for key, value in zip(keys, values, strict=True)])

    def remove_entity(self, name: str) -> bool:
        """Remove an entity with its relations; return whether it existed."""
        there = name in self._present([name])
        return there and self._mark_removed(_OF, (self._graph, name, name)) > 0

    def remove_relation(self, source: str, target: str, kind: str | None) -> int:
        """Remove relations; return how many were removed."""
        return self._mark_removed(_ONE, (self._graph, source, target, kind, kind))

    def _mark_removed(self, condition: str, values: Sequence[object]) -> int:
        return self._database.execute(
            f"UPDATE knowledge SET value = NULL, changed = ? WHERE {condition} AND value IS NOT NULL",  # noqa: S608
            (self._next(), *values),
        ).rowcount

    def _merge(self, thing: Entity | Relation, key: tuple[str, str, str]) -> Entity | Relation:
        row = self._database.execute(
            "SELECT value FROM knowledge WHERE graph = ? AND source = ? AND target = ? AND kind = ?",
            (self._graph, *key),
        ).fetchone()
        old = None if row is None else _read(key[1], row[0])
        if isinstance(thing, Entity):
            return old.updated(thing) if isinstance(old, Entity) else thing
        return old.updated(thing) if isinstance(old, Relation) else thing

    def _next(self) -> int:
        rows = self._database.execute("SELECT max(changed) FROM knowledge WHERE graph = ?", (self._graph,))
        return int(rows.fetchone()[0] or 0) + 1

    def _check(self, things: Sequence[Entity | Relation]) -> None:
        declared = {thing.id for thing in things if isinstance(thing, Entity)}
        ends = [end for thing in things if isinstance(thing, Relation) for end in (thing.source, thing.target)]
        needed = [end for end in dict.fromkeys(ends) if end not in declared]
        there = self._present(needed) if needed else set()
        missing = [name for name in needed if name not in there]
        if missing:
            everybody = self._database.execute(
                "SELECT source FROM knowledge WHERE graph = ? AND target = '' AND value IS NOT NULL", (self._graph,)
            )
            raise unknown(missing[0], [*declared, *(row[0] for row in everybody)])

    def _present(self, names: Iterable[str]) -> set[str]:
        rows = self._database.execute(
            "SELECT source FROM knowledge WHERE graph = ? AND source IN (SELECT value FROM json_each(?)) "
            "AND target = '' AND value IS NOT NULL",
            (self._graph, msgspec.json.encode(list(names)).decode()),
        )
        return {row[0] for row in rows}


def _key(thing: Entity | Relation) -> tuple[str, str, str]:
    return (thing.id, "", "") if isinstance(thing, Entity) else (thing.source, thing.target, thing.kind)


def _read(target: str, value: Any) -> Entity | Relation | None:
    if value is None:
        return None
    return _relation.decode(value) if target else _entity.decode(value)
