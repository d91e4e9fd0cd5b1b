"""Requests: ids and numbers as they come in paths, headers, queries and bodies, and the statuses of errors."""

import re
from collections.abc import Iterable, Mapping

from ziggurat.core.codec import decode
from ziggurat.core.errors import (
    AlreadyDecided,
    CallerError,
    ConfigurationError,
    Denied,
    JournalCorrupt,
    JournalError,
    LeaseHeld,
    LimitExceeded,
    RunExists,
    RunInProgress,
    RunNotFound,
    ZigguratError,
)
from ziggurat.messages.stops import STATUSES

_ID = re.compile(r"(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}(~[0-9]{1,9})?")
"""The ids that are given, with the numbers of runs that continue others as new."""
_CONTINUED = re.compile(r"~\d{1,9}$")


def check_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ConfigurationError(
            f"an id has letters, digits and . _ - (at most 128), perhaps a number after ~, and is not . or .., "
            f"got {text!r:.150}"
        )
    return text


def first_id(run_id: str) -> str:
    """Return the id of the first of the runs as which one has continued as new; by it clients know them all."""
    return _CONTINUED.sub("", run_id)


def read_number(query: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = 999_999_999) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10 and least <= int(text) <= most):
        raise ConfigurationError(f"{name} is a whole number from {least} to {most}, got {text!r:.50}")
    return int(text)


def read_labels(texts: Iterable[str], sign: str, where: str) -> dict[str, object]:
    labels: dict[str, object] = {}
    for each in texts:
        name, found, text = each.partition(sign)
        if not (name and found):
            raise ConfigurationError(f"{where} takes NAME{sign}VALUE, such as team{sign}blue; got {each!r:.150}")
        labels[name] = value_of(text)
    return labels


def value_of(text: str) -> object:
    """Return the value of a text that is JSON; any other is text."""
    try:
        return decode(text, object)
    except JournalCorrupt:
        return text


def read_status(name: str, where: str = "status") -> str:
    statuses = {each.lower(): each for each in STATUSES}
    if name.lower() in statuses:
        return statuses[name.lower()]
    raise ConfigurationError(f"{where} {name:.50}: known are {', '.join(statuses)}")


_STATUS: tuple[tuple[type[ZigguratError], int], ...] = (
    (RunNotFound, 404),
    (RunExists, 409),
    (AlreadyDecided, 409),
    (LeaseHeld, 409),
    (RunInProgress, 409),
    (Denied, 403),
    (CallerError, 422),
    (JournalError, 409),
    (LimitExceeded, 503),
)


def status_of(error: Exception) -> int:
    """Return the status for an error: 500 for what the one who asks cannot mend."""
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
