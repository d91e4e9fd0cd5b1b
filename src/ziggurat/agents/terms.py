"""Terms: the grants and the session a run was started with, recorded so that they still apply on resume."""

__all__ = ["Terms", "limit_grants", "terms_in", "terms_of"]

from typing import Any, cast

from msgspec import Struct

from ziggurat.agents.run_options import Deps
from ziggurat.core.codec import as_type
from ziggurat.core.entries import Opened
from ziggurat.core.journal import MemoryJournal
from ziggurat.core.scope import Key
from ziggurat.tools.permissions import DECLARED_ONLY, GRANTS


class Terms(Struct, frozen=True, omit_defaults=True):
    """The grants of a run and its session, as kept in its record.

    Attributes:
        grants: The permissions granted to the run, sorted; None if none were given.
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
    """Return the terms to record for a run with these dependencies, None if there are none."""
    grants = None if deps is None else deps.get(GRANTS)
    return None if grants is None else Terms(tuple(sorted(grants)))


def terms_in(journal: MemoryJournal) -> Terms:
    """Return the terms of a recorded run; a fork belongs to no session."""
    opened = journal.entries[0] if journal.entries else None
    if not isinstance(opened, Opened) or opened.terms is None:
        return _NONE
    terms = as_type(opened.terms, cast("type[Terms | None]", Terms | None)) or _NONE
    return terms if opened.forked is None else Terms(terms.grants)


def limit_grants(values: dict[Key[Any], Any], terms: Terms) -> bool:
    """Limit the grants in `values` to those in the terms; return whether the terms have any."""
    if terms.grants is None:
        return False
    grants = frozenset(terms.grants)
    values[GRANTS] = grants & values.get(GRANTS, grants)
    values[DECLARED_ONLY] = True
    return True
