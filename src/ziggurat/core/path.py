"""Addresses of calls in a run: ``trip/step-2/tool-1:search/researcher/step-1/model``.

A path is text: names joined by ``/``. It holds names and positions only, never an id of a provider or a time,
so a run that is replayed has the same paths.
"""

__all__ = ["escaped", "is_beneath", "is_question", "is_tool_call", "parent_of"]


def escaped(name: str) -> str:
    """Make any name fit to be one segment of a path, unlike that of every other name.

    ``#`` is for numbering and ``:`` for the calls of tools (``tool-1:search``), so no other segment has them.
    """
    if not name:
        return "unnamed"
    if "/" in name or "%" in name or "#" in name or ":" in name:
        return name.replace("%", "%25").replace("/", "%2F").replace("#", "%23").replace(":", "%3A")
    return name


def parent_of(path: str) -> str:
    """Return the path one level up; the root's parent is ``""``."""
    return path.rpartition("/")[0]


def is_beneath(path: str, ancestor: str) -> bool:
    """Return whether `path` is `ancestor` or lies under it, comparing whole names (``a/b`` is not below ``a/bc``)."""
    return not ancestor or path == ancestor or path.startswith(ancestor + "/")


def is_tool_call(path: str) -> bool:
    """Return whether a tool call that a model asked for stands at `path`."""
    return ":" in path.rpartition("/")[2]


def is_question(path: str) -> bool:
    """Return whether the question of an agent's step to its model stands at `path`: ``.../step-2/model``."""
    above, _, name = path.rpartition("/")
    return (name == "model" or name.startswith("model#")) and above.rpartition("/")[2].startswith("step-")
