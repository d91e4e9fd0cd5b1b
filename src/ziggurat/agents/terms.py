"""Terms: the grants and the session a run was started with, kept in its record so that they hold on resume."""

__all__ = ["Terms", "bound", "terms_in", "terms_of"]

from typing import Any, cast

from msgspec import Struct

from ziggurat.agents.run_options import Deps
from ziggurat.core.codec import as_type
from ziggurat.core.entries import Opened
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.scope import Key
from ziggurat.tools.permissions import DECLARED_ONLY, GRANTS


class Terms(Struct, frozen=True, omit_defaults=True):
    """What a run may do, and which session it belongs to, wherever it goes on.

    Attributes:
        grants: What the run was granted, sorted; None where nothing was said.
        session: The id of its session; empty without one.
        elsewhere: Whether the session is kept in another store than the run.
        loaded: How many messages of the request came from the session.
        rows: How many rows the session had then.
    """

    grants: tuple[str, ...] | None = None
    session: str = ""
    elsewhere: bool = False
    loaded: int = 0
    rows: int = 0


_NONE = Terms()


def terms_of(deps: Deps | None) -> Terms | None:
    """Return what goes with a run that must not be lost with the process, None if nothing does."""
    grants = None if deps is None else deps.get(GRANTS)
    return None if grants is None else Terms(tuple(sorted(grants)))


def terms_in(journal: MemoryJournal) -> Terms:
    """Return the terms of a run that is on record; a fork belongs to no session."""
    opened = journal.entries[0] if journal.entries else None
    if not isinstance(opened, Opened) or opened.terms is None:
        return _NONE
    terms = as_type(opened.terms, cast("type[Terms | None]", Terms | None)) or _NONE
    return terms if opened.forked is None else Terms(terms.grants)


def bound(values: dict[Key[Any], Any], terms: Terms) -> bool:
    """Keep what goes with a run within its terms: never more is granted than was; return whether they say anything."""
    if terms.grants is None:
        return False
    grants = frozenset(terms.grants)
    values[GRANTS] = grants & values.get(GRANTS, grants)
    values[DECLARED_ONLY] = True
    return True
