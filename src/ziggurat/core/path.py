"""Ids, and paths, the addresses of calls in a run: ``trip/step-2/tool-1:search/researcher/step-1/model``.

A path is text: names joined by ``/``. It contains only names and positions, never a provider's id or a time,
so a replayed run has the same paths.
"""

import re
from collections.abc import Iterator

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.visible import JOINERS, is_hidden

REUSED = "reused"
"""The name below an agent at which it is on record that it was answered with the answer to another call."""

_INNERMOST_STEP = re.compile(r"(.*)/step-(\d+)/([^/]+)(?:/.*)?")
_STEP = re.compile(r"step-(\d+)/(.*)")
_ALTERNATIVE = re.compile(r"alt-\d+")


def escaped(name: str) -> str:
    """Return a name as one segment of a path; different names give different segments."""
    if not name:
        return "unnamed"
    if "/" in name or "%" in name or "#" in name or ":" in name:
        return name.replace("%", "%25").replace("/", "%2F").replace("#", "%23").replace(":", "%3A")
    return name


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


def upwards(path: str) -> Iterator[str]:
    """Yield a path and all paths above it, the longest first, up to that of the agent of the run."""
    while path:
        yield path
        path = parent_of(path)


def is_beneath(path: str, ancestor: str) -> bool:
    """Return whether `path` is `ancestor` or below it, comparing whole names (``a/bc`` is not below ``a/b``)."""
    return not ancestor or path == ancestor or path.startswith(ancestor + "/")


def is_tool_call(path: str) -> bool:
    return ":" in path.rpartition("/")[2]


def is_model_call(path: str) -> bool:
    """Return whether `path` is that of a model call: ``.../model``, ``.../model#2``."""
    return name_at(path) == "model"


def name_at(path: str) -> str:
    """Return the name of the call at `path`, without its number: ``ask`` for ``.../ask`` and ``.../ask#2``."""
    return path.rpartition("/")[2].partition("#")[0]


def is_question(path: str) -> bool:
    """Return whether `path` is that of the model call of an agent's step: ``.../step-2/model``."""
    above, _, name = path.rpartition("/")
    return is_model_call(name) and above.rpartition("/")[2].startswith("step-")


def is_alternative(path: str) -> bool:
    """Return whether `path` is that of one of a combinator's alternatives: ``.../alt-1``."""
    return _ALTERNATIVE.fullmatch(name_at(path)) is not None


def step_of(path: str, agent: str | None = None) -> tuple[str, int, str]:
    """Return the agent of a call made in a step, the number of the step, and what follows."""
    if agent is None:
        match = _INNERMOST_STEP.fullmatch(path)
        return (path, 0, "") if match is None else (match[1], int(match[2]), match[3])
    under = path[len(agent) + 1 :] if path.startswith(agent + "/") else ""
    step = _STEP.match(under)
    return (agent, 0, "") if step is None else (agent, int(step[1]), step[2])


LONGEST = 500  # the longest id of a run or a session that every store can keep, in characters

ID = f"a non-empty string, of {LONGEST} characters at most, without NUL and lone surrogates"
"""The description of a valid id, for error messages."""

_IDS = "letters and digits of ASCII and - _ . : @ / + = , | ~, not beginning with -"
_ID = re.compile(r"(?!-)[A-Za-z0-9_.:@/+=,|~-]+")
_NUMBERED = re.compile(r"(.+)~(\d+)", re.DOTALL)


def is_id(text: str) -> bool:
    """Return whether every store accepts a text as the id of a run or a session, or the name of an agent."""
    return len(text) <= LONGEST and "\0" not in text and not any("\ud800" <= each <= "\udfff" for each in text)


def next_id(run_id: str) -> str:
    """Return the id of the run that continues a run as new."""
    numbered = _NUMBERED.fullmatch(run_id)
    return f"{run_id}~2" if numbered is None else f"{numbered[1]}~{int(numbered[2]) + 1}"


def previous_id(run_id: str) -> str:
    """Return the id of the run that a run continues as new, if it continues one."""
    numbered = _NUMBERED.fullmatch(run_id)
    return "" if numbered is None else numbered[1] if numbered[2] == "2" else f"{numbered[1]}~{int(numbered[2]) - 1}"


def check_new_id(text: object, what: str) -> None:
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST or _ID.fullmatch(text) is None:
        raise ConfigurationError(f"{what} is {_IDS}, 1 to {LONGEST} of them; got {text!a:.200}")


def check_new_name(text: object, what: str) -> None:
    fits = isinstance(text, str) and len(text.strip()) > 0 and len(text) <= LONGEST
    if not fits or any(is_hidden(each) and each not in JOINERS for each in str(text)):
        raise ConfigurationError(f"{what} is visible characters on one line, 1 to {LONGEST} of them; got {text!a:.200}")
