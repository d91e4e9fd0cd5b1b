"""The characters of new ids and names. What is stored already is found by any id, also by one that is refused here."""

import re
import unicodedata

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import JOINERS, is_hidden

LONGEST = 500
"""The longest id of a run or a session that every store can keep, in characters."""

ID = f"a non-empty string, of {LONGEST} characters at most, without NUL and lone surrogates"
"""The description of a valid id, for error messages."""

_IDS = "letters and digits of ASCII and - _ . : @ / + = , | ~, not beginning with -"
_ID = re.compile(r"(?!-)[A-Za-z0-9_.:@/+=,|~-]+")
_OTHER = re.compile(r"[^A-Za-z0-9_.:@/+=,|~-]")
_NUMBERED = re.compile(r"(.+)~(\d+)", re.DOTALL)
_NAMES = "visible characters on one line"


def is_id(text: str) -> bool:
    """Return whether every store accepts a text as the id of a run or a session, or the name of an agent."""
    return len(text) <= LONGEST and "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def next_id(run_id: str) -> str:
    """Return the id of the run that continues a run as new.

    >>> next_id("watch"), next_id("watch~2")
    ('watch~2', 'watch~3')
    """
    numbered = _NUMBERED.fullmatch(run_id)
    return f"{run_id}~2" if numbered is None else f"{numbered[1]}~{int(numbered[2]) + 1}"


def check_new_id(text: object, what: str) -> None:
    """Check the id of a run or a session that does not exist yet."""
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST:
        raise ConfigurationError(f"{what} is {_IDS}, 1 to {LONGEST} of them; {_count(text)}")
    if _ID.fullmatch(text) is None:
        other = _OTHER.search(text)
        raise ConfigurationError(f"{what} is {_IDS}; {_place(text, other.start() if other else 0)}")


def check_new_name(text: object, what: str) -> None:
    """Check the name of an agent, a label, or the owner of a memory."""
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST:
        raise ConfigurationError(f"{what} is {_NAMES}, 1 to {LONGEST} of them; {_count(text)}")
    if not (text.isascii() and text.isprintable()):
        for place, each in enumerate(text):
            if is_hidden(each) and each not in JOINERS:
                raise ConfigurationError(f"{what} is {_NAMES}; {_place(text, place)}")


def _count(text: object) -> str:
    return f"it has {len(text)}" if isinstance(text, str) and text.strip() else f"got {text!r:.200}"


def _place(text: str, place: int) -> str:
    name = unicodedata.name(text[place], "a character without a name")
    return f"{text!r:.200} has {text[place]!r} ({name.lower()}) as character {place + 1}"
