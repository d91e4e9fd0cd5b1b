"""RunConditions: the grants and the session a run was started with, recorded so that they still apply on resume."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct

from ziggurat.core.codec import Raw, as_type, decode, digest, encode
from ziggurat.core.context import Key
from ziggurat.journal.entries import JournalEntry, Opened
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import Message
from ziggurat.tools.permissions import DECLARED_ONLY, GRANTS


class RunConditions(Struct, frozen=True, omit_defaults=True):
    """The grants of a run and its session, as kept in its record.

    Its request begins with the first `loaded` messages, with this digest, of its session when that had so many `rows`.
    """

    grants: tuple[str, ...] | None = None
    session: str = ""
    elsewhere: bool = False
    loaded: int = 0
    rows: int = 0
    limit: int | None = None
    digest: str = ""


_NONE = RunConditions()


def conditions_of(opened: JournalEntry) -> RunConditions:
    """Return the conditions in the first entry of a run; a fork belongs to no session."""
    if not isinstance(opened, Opened) or opened.terms is None:
        return _NONE
    conditions = as_type(opened.terms, cast("type[RunConditions | None]", RunConditions | None)) or _NONE
    return conditions if opened.forked is None else RunConditions(conditions.grants)


def loaded_by(opened: Opened) -> Sequence[Message]:
    """Return the messages of a request that are read from the session, which is in the same store as the run."""
    conditions = conditions_of(opened)
    if not conditions.loaded or conditions.elsewhere:
        return ()
    return as_type(opened.request, AgentRequest).messages[: conditions.loaded]


def request_of(opened: Opened) -> str:
    """Return the digest of the request of a run, by which it is recognised."""
    return digest(as_type(opened.request, AgentRequest))


def labels_of(opened: JournalEntry) -> dict[str, Any]:
    """Return the labels in the first entry of a run, as plain values."""
    labels = opened.labels if isinstance(opened, Opened) else None
    plain = decode(labels if isinstance(labels, Raw) else encode(labels), object)
    return plain if isinstance(plain, dict) else {}


def limit_grants(values: dict[Key[Any], Any], conditions: RunConditions) -> None:
    """Limit the grants in `values` to those in the conditions, if these have any."""
    if conditions.grants is not None:
        grants = frozenset(conditions.grants)
        values[GRANTS] = grants & values.get(GRANTS, grants)
        values[DECLARED_ONLY] = True
