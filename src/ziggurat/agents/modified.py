"""Arguments that a person gives a call in place of its own, held to what the call takes before anything is decided."""

__all__ = ["TOOLS", "misfit"]

from ziggurat.core.codec import decode
from ziggurat.core.errors import InvalidArguments, JournalCorrupt
from ziggurat.core.facts import Fact, fact
from ziggurat.core.path import is_tool_call
from ziggurat.messages.canonical import canonical
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.toolbox import Entry, Toolbox

TOOLS: Fact[Toolbox | None] = Fact("tools", None)
"""The tools of an agent, reachable through its layers."""


def misfit(agent: object, path: str, name: str, arguments: object) -> str | None:
    """Return why a call cannot be made with these arguments, None where nothing speaks against it.

    Of a tool of an agent that a function runs only the form is looked at: nobody knows that agent from outside.

    Args:
        agent: Whose run it is, at the root.
        path: Where the call stands.
        name: What is called.
        arguments: The arguments, a JSON object as text.
    """
    if not isinstance(arguments, str):
        return f"the arguments of {name} are a JSON object as text, got {arguments!r}"
    try:
        canonical(arguments, name)
        if not is_tool_call(path):
            decode(arguments, ModelRequest)
            return None
        entry = _found(agent, path)
        if entry is not None and entry.check is not None:
            entry.check(ToolCall("", name, arguments))
    except InvalidArguments as error:
        return str(error)
    except JournalCorrupt as error:
        return f"that is no request to {name}: {error}"
    return None


def _found(agent: object, path: str) -> Entry | None:
    """Return the tool that is called at a path, None where it cannot be seen from the root."""
    service, entry = agent, None
    for name in path.split("/"):
        called = name.partition(":")[2]
        if not called:
            continue
        box = fact(service, TOOLS)
        entry = None if box is None else box.find(called)
        if entry is None:
            return None
        service = entry.service
    return entry
