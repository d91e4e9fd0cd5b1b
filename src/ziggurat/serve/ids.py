"""Ids as they come in paths, headers and bodies."""

import re

from ziggurat.core.errors import ConfigurationError

_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


def check_id(text: str) -> str:
    """Return an id that may name a run.

    Raises:
        ConfigurationError: it may not.
    """
    if not _ID.fullmatch(text):
        raise ConfigurationError(f"an id has letters, digits and . _ - (at most 128), got {text!r:.150}")
    return text
