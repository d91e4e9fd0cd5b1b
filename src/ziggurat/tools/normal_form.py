"""The normal form of a call's arguments: canonical JSON of exactly the values that the tool will receive."""

from collections.abc import Callable

from ziggurat.core.codec import canonical
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.parts import ToolCall
from ziggurat.tools.arguments import read, shown

_ROUNDS = 4


def normal_form(arguments: str, recode: Callable[[str], str]) -> str:
    """Return the text that decoding and encoding leave as it is, starting from a model's arguments."""
    before, text = arguments, recode(arguments)
    for _ in range(_ROUNDS):
        if text == before:
            return text
        before, text = text, recode(text)
    raise InvalidArguments(f"the arguments change each time they are read: {arguments[:200]!r} became {text[:200]!r}")


def plain_form(call: ToolCall) -> ToolCall:
    """Return a call with its arguments as canonical JSON; for tools that decode their arguments themselves."""
    value = read(call.arguments) if call.arguments.strip() else {}
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, got {shown(value)}")
    text = canonical(value).decode()
    return call if text == call.arguments else ToolCall(call.id, call.name, text)
