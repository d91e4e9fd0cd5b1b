"""Sixty conversations in which a model, a gateway or a program did something wrong, each written by hand.

They were written from what is known of providers, and without a look at the ones that `faulty` draws.
"""

from ziggurat import Message, Text, ToolCall, user
from ziggurat.messages.message import File, Image, Part, Thinking, ToolResult
from ziggurat.messages.model import ToolSpec

_KEYS = {"$top": {"type": "integer"}, "filter[name]": {"type": "string"}, "a.b": {}, "x" * 70: {}, "naïve": {}}
ODD_TOOLS = (
    ToolSpec("look", "Look.", {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}),
    ToolSpec("crm.search", "Search.", {"type": "object", "properties": _KEYS, "required": ["$top"]}),
    ToolSpec("crm_search", "Search here.", {"type": "object", "properties": {"a_b": {}, "a.b": {}, "a-b": {}}}),
    ToolSpec("3d_view", "View.", {"type": "object", "properties": {"in": {"type": "object", "properties": _KEYS}}}),
    ToolSpec("-dash", "Dash.", {"type": "object", "properties": {"": {"type": "string"}, " ": {"type": "string"}}}),
    ToolSpec("suche_für_alle", "Suchen.", {"type": "object", "properties": {"items": {"type": "array", "items": {
        "type": "object", "properties": {"$ref": {"type": "string"}, "@type": {"type": "string"}}}}}}),
    ToolSpec("long_" + "n" * 90, "Long.", {"type": "object", "properties": {}}),
    ToolSpec("long_" + "n" * 91, "Longer.", {"type": "object"}),
)  # fmt: skip

Story = list[Message]


def says(*parts: Part | str) -> Message:
    return Message("assistant", tuple(Text(each) if isinstance(each, str) else each for each in parts))


def call(arguments: str = '{"at":"x"}', name: str = "look", id: str = "call_1") -> ToolCall:  # noqa: A002
    return ToolCall(id, name, arguments)


def told(content: str = "seen", name: str = "look", id: str = "call_1") -> ToolResult:  # noqa: A002
    return ToolResult(id, name, content)


def answered(*results: ToolResult) -> Message:
    return Message("tool", results)


def _called(arguments: str = '{"at":"x"}', name: str = "look", id: str = "call_1") -> Story:  # noqa: A002
    """A call with its result, the model's word, and a question after it."""
    made = says(call(arguments, name, id))
    return [user("go"), made, answered(told("seen", name, id)), says("Done."), user("and now?")]


def _said(*parts: Part | str) -> Story:
    return [user("go"), says(*parts), user("and now?")]


_ARGUMENTS = {
    "no arguments": "",
    "blank arguments": "  \n",
    "null arguments": "null",
    "a list": "[]",
    "a list of one object": '[{"at": "x"}]',
    "text in JSON": '"at"',
    "JSON in JSON": '"{\\"at\\": \\"x\\"}"',
    "a number": "7",
    "cut in a key": '{"at',
    "cut in a value": '{"at": "a long wa',
    "cut after a comma": '{"at": "x",',
    "two objects": '{"at": "x"}{"at": "y"}',
    "Python": "{'at': None}",
    "not a number": '{"at": NaN, "n": -Infinity}',
    "too large": '{"at": 1e999}',
    "a fence": '```json\n{"at": "x"}\n```',
    "half a surrogate": '{"at": "\\ud83d"}',
    "a byte order mark": '\ufeff{"at": "x"}',
    "one key twice": '{"at": "x", "at": "y"}',
    "raw line breaks": '{"at": "x\ny"}',
    "deep": '{"at":' + "[" * 300 + "]" * 300 + "}",
    "words around": 'Sure! {"at": "x"} Done.',
    "keys that are refused": '{"$top": 3, "filter[name]": "x", "' + "x" * 70 + '": 1, "": 2}',
}
_NAMES = {
    "no name": "",
    "blank name": " ",
    "a dotted name": "crm.search",
    "a name with a prefix": "functions.look",
    "a name with a slash": "server/look",
    "a token in a name": "look<|channel|>commentary",
    "an endless name": "look" * 60,
    "words in a name": "look at it",
    "a name in Chinese": "查看",
    "a name with a digit first": "3d_view",
    "a name with a line break": "look\n",
    "a name with brackets": "look(at='x')",
    "a name of nothing that is known": "vanished_tool",
}
_IDS = {
    "no id": "",
    "a blank id": " ",
    "a long id": "call_" + "9" * 120,
    "an id with signs": "toolu/01:ab=c+d",
    "an id in Greek": "κλήση",
    "a short id": "1",
    "a thought in an id": "call_1__thought__" + "QUJD" * 60,
}

EPISODES: dict[str, Story] = {
    **{name: _called(arguments) for name, arguments in _ARGUMENTS.items()},
    **{name: _called(name=each) for name, each in _NAMES.items()},
    **{name: _called(id=each) for name, each in _IDS.items()},
    "nothing was said": _said(),
    "an empty text": _said(""),
    "blank text": _said("\n \t"),
    "an invisible text": _said("\u200b\ufeff"),
    "text that ends in blanks": _said("Done.  \n"),
    "a bare thought": _said(Thinking("hm")),
    "a thought of another": _said(Thinking("hm", signature="c2lnbmVk"), "Done."),
    "a sealed thought": _said(Thinking(redacted="c2VhbGVk"), "Done."),
    "a thought after its call": [
        user("go"), says(call(), Thinking("late", signature="x")), answered(told()), says("Done."), user("and?"),
    ],
    "text after a call": [user("go"), says(call(), "I look."), answered(told()), user("and?")],
    "one id for two calls": [
        user("go"), says(call(), call('{"at":"y"}')), answered(told("a"), told("b")), says("Done."), user("and?"),
    ],
    "one id in two turns": [*_called()[:4], *_called('{"at":"y"}')],
    "two ids that shorten to one": [
        user("go"), says(call(id="a" * 80 + "1"), call(id="a" * 80 + "2")),
        answered(told("1", id="a" * 80 + "1"), told("2", id="a" * 80 + "2")), user("and?"),
    ],
    "results in another order": [
        user("go"), says(call(id="a"), call(id="b")), answered(told(id="b")), answered(told(id="a")), user("and?"),
    ],
    "an empty result": [user("go"), says(call()), answered(told("")), user("and?")],
    "a result that is a picture": [
        user("go"), says(call()), answered(ToolResult("call_1", "look", (Image(b"\x89PNG"),))), user("and?"),
    ],
    "the model begins": [says("Hello, how can I help?"), user("go"), says("Well."), user("and?")],
    "the model twice": [user("go"), says("One."), says("Two."), says(call()), answered(told()), user("and?")],
    "the user twice": [user("go"), user("go on"), says(""), user("and?")],
    "an empty question": [user("go"), says("Well?"), user(" "), says("?"), user("and?")],
    "a file that was sent": [
        Message("user", (Text("read"), File(b"notes", name="a.txt", media_type="text/plain"))),
        says(" "), user("?"),
    ],
    "only bad replies": [user("go"), says(), says(" "), says(Thinking("")), user("and?")],
    "a result at the end": [user("go"), says("", call("", "", "")), answered(told("", "", ""))],
}  # fmt: skip
