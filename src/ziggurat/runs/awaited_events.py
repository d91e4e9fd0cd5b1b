"""How an event that is sent fits what a suspended run waits for."""

from ziggurat.calls.call_decision import misfit_of_schema
from ziggurat.calls.event import awaited_in
from ziggurat.core.errors import MissingExtra
from ziggurat.core.event import warn_once
from ziggurat.core.similar import similar
from ziggurat.journal.entries import Pending
from ziggurat.messages.pending import recorded_item


def warn_of_name(waits: list[Pending], name: str, run_id: str) -> None:
    """Warn once of an event whose name, but for its digits, resembles one that is waited for; it may be for later."""
    items = [recorded_item(pending, None) for pending in waits]
    names = {awaited_in(item.call).event for item in items if item.stage == "event"}
    digits = str.maketrans("", "", "0123456789")
    near = [each for each in similar(name, names) if each.translate(digits) != name.translate(digits)]
    if name not in names and near:
        warn_once(f"the run {run_id!r} waits for the event {near[0]!r}; {name!r}, which was sent, is stored for later")


def misfit_of(waits: list[Pending], name: str, value: object) -> str | None:
    """Return why a value fits none of the waits for an event, None if it does, nothing waits, or it cannot be said."""
    wrong: str | None = None
    for item in (recorded_item(pending, None) for pending in waits):
        awaited = awaited_in(item.call) if item.stage == "event" else None
        if awaited is None or awaited.event != name:
            continue
        try:
            wrong = misfit_of_schema(awaited.value, value)
        except MissingExtra:  # it is checked when it is taken
            return None
        if wrong is None:
            return None
    return wrong
