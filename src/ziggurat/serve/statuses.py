"""The HTTP status of an error."""

from ziggurat.core.errors import (
    AlreadyDecided,
    ConfigurationError,
    Denied,
    JournalError,
    LeaseHeld,
    LimitExceeded,
    RunExists,
    RunNotFound,
    ZigguratError,
)

_STATUS: tuple[tuple[type[ZigguratError], int], ...] = (
    (RunNotFound, 404),
    (RunExists, 409),
    (AlreadyDecided, 409),
    (LeaseHeld, 409),
    (Denied, 403),
    (ConfigurationError, 422),
    (JournalError, 409),
    (LimitExceeded, 503),
)


def status_of(error: Exception) -> int:
    """Return the status for an error: 500 for what the one who asks cannot mend."""
    return next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
