"""The protocol's parser: what it reads, what it refuses, and that splitting the text changes nothing."""

import pytest
from hypothesis import example, given, strategies as st

from tests.samples import sample
from ziggurat import Message, Text, ToolCall
from ziggurat.events import Fold, ToolCallDelta
from ziggurat.messages import Thinking
from ziggurat.messages.message import Part, PartDelta
from ziggurat.models.react_protocol.protocol import ReactParser


def read(*pieces: str) -> tuple[Message, ReactParser]:
    parser, fold = ReactParser("id"), Fold()
    for piece in pieces:
        for delta in parser.feed(piece):
            fold.push(delta)
    for delta in parser.finish():
        fold.push(delta)
    return fold.message(), parser


def call(name: str, arguments: str = "{}") -> ToolCall:
    return ToolCall("id", name, arguments)


READABLE: list[tuple[str, tuple[Part, ...]]] = [
    ('Thought: add them\nAction: add {"a": 1}', (Thinking("add them"), call("add", '{"a": 1}'))),
    ('Action: add {"a": 1}', (call("add", '{"a": 1}'),)),
    ('action : add {"a": 1}', (call("add", '{"a": 1}'),)),
    ('  THOUGHT  : hm\n\tAction:add{"a":1}', (Thinking("hm"), call("add", '{"a":1}'))),
    ("Action: now", (call("now"),)),
    ("Action: now \n\n", (call("now"),)),
    ("Action: now\nThen I shall see.", (call("now"),)),
    ("Action: now\nObservation: it is late", (call("now"),)),
    ('Action: add\n{\n  "a": 1\n}\n', (call("add", '{\n  "a": 1\n}'),)),
    ('Action: say {"t": "a } \\" { \\\\"} and more', (call("say", '{"t": "a } \\" { \\\\"}'),)),
    ('Action: f {"a": [{"b": {}}]}\nAction: g {}', (call("f", '{"a": [{"b": {}}]}'),)),
    ("I add them.\nAction: add {}", (Thinking("I add them."), call("add"))),
    ("Sure!\nThought: one\nThought: two\n lines\nAction: f", (Thinking("Sure!\none\ntwo\n lines"), call("f"))),
    ("Thought: actions speak\nthoughtful\nAction: f", (Thinking("actions speak\nthoughtful"), call("f"))),
    ("Thought: done\nAction: FINAL_ANSWER it is 4", (Thinking("done"), Text("it is 4"))),
    ("Action: final_answer: it is\n\n  4  \n", (Text("it is\n\n  4"),)),
    ("Action: Final Answer 4", (Text("4"),)),
    ("FINAL_ANSWER 4", (Text("4"),)),
    ("Thought: done\nFinal Answer: 4", (Thinking("done"), Text("4"))),
    (
        "Thought: Final answers are hard\nFinal answer is near\nAction: f",
        (Thinking("Final answers are hard\nFinal answer is near"), call("f")),
    ),
    ("Action: FINAL_ANSWER", ()),
    ("Action: FINAL_ANSWER42", (Text("42"),)),
    ("Action: final_answers {}", (call("final_answers"),)),
    ("Action: final_answer_tool", (call("final_answer_tool"),)),
    ("Action: final", (call("final"),)),
    ("Action: FINAL_ANSWER 4\nObservation: no", (Text("4"),)),
    ("Action: FINAL_ANSWER Thought: is free\nAction: too", (Text("Thought: is free\nAction: too"),)),
    ('Action: FINAL_ANSWER {"city": "Rome"}', (Text('{"city": "Rome"}'),)),
    ("Thought:\nAction: f", (call("f"),)),
    ("\n\n Action: f", (call("f"),)),
    ('Action: größe {"ö": "é"}', (call("größe", '{"ö": "é"}'),)),
]

DRESSED: list[tuple[str, tuple[Part, ...]]] = [
    ('**Thought:** so\n**Action:** add {"a": 1}', (Thinking("so"), call("add", '{"a": 1}'))),
    ("**Thought**: *so* it is\n**Action**: `add` {}", (Thinking("*so* it is"), call("add"))),
    ("### Thought: so\n### Action: [add] {}", (Thinking("so"), call("add"))),
    ("Thought 1: so\nAction 1: **add** {}\nObservation 1: no", (Thinking("so"), call("add"))),
    ("\ufeffThought: so\nAction\uff1a add {}", (Thinking("so"), call("add"))),
    ("Thought: a list\n* Action: is a word\nAction: add", (Thinking("a list\n* Action: is a word"), call("add"))),
    ('Action: add\nAction Input: {"a": 1}\nObservation: no', (call("add", '{"a": 1}'),)),
    ('**Action:** "add"\n**Action Input:** ```json\n{"a": 1}\n```', (call("add", '{"a": 1}'),)),
    ("Action: now\nAction Input:\n", (call("now"),)),
    ("Action: now\nActions speak louder.", (call("now"),)),
    ('Action: add ```json\n{"a": 1}\n```', (call("add", '{"a": 1}'),)),
    ('Action: add\n```\n{"a": 1}\n```', (call("add", '{"a": 1}'),)),
    ('Action: `add {"a": 1}`', (call("add", '{"a": 1}'),)),
    ('Action: add({"a": 1})', (call("add", '{"a": 1}'),)),
    ('Action: add: {"a": 1}', (call("add", '{"a": 1}'),)),
    ("Action: now()", (call("now"),)),
    ("Action: now ()\n", (call("now"),)),
    ("```\nThought: so\nAction: now\n```", (Thinking("so"), call("now"))),
    ("**Final Answer:** 4", (Text("4"),)),
    ("**FINAL_ANSWER**: 4", (Text("4"),)),
    ("**Action:** FINAL_ANSWER **4** of 5", (Text("**4** of 5"),)),
    ("Action: `FINAL_ANSWER` 4", (Text("4"),)),
    ("Action: **FINAL_ANSWER:** *4*", (Text("*4*"),)),
    ("Action: **_FINAL_** ", (call("_FINAL_"),)),
]
"""Variants of the form that small models write."""

BROKEN: list[tuple[str, tuple[Part, ...], str]] = [
    ("", (), "The reply is empty."),
    (" \n", (Text(" \n"),), "The reply is empty."),
    ("I do not know.", (Text("I do not know."),), "The reply has no Action."),
    ("Observation: it rains", (), "The reply is empty."),
    ("It rains.\nObservation: yes", (Text("It rains.\n"),), "The reply has no Action."),
    ("Thought: hm", (Thinking("hm"),), "The reply has a Thought but no Action."),
    ("Thought: hm\nObservation: yes", (Thinking("hm"),), "The reply has a Thought but no Action."),
    ("Action:", (Text("Action:"),), "The Action names no tool."),
    ("Action: \nadd {}", (Text("Action: \nadd {}"),), "The Action names no tool."),
    ("Thought: x\nAction: {}", (Thinking("x"), Text("Action: {}")), "The Action names no tool."),
    ("Action: add {a: 1} x", (Text("Action: add {a: 1} x"),), "The arguments of add are not a JSON object: "),
    ('Action: add {"a": 1', (Text('Action: add {"a": 1'),), "The arguments of add are not closed"),
    ("Action: add 1, 2\nObservation: 3", (Text("Action: add 1, 2\n"),), "What follows add is not a JSON object."),
    ("Action: add [1]", (Text("Action: add [1]"),), "What follows add is not a JSON object."),
    ("Action: add ```python\n1\n```", (Text("Action: add ```python\n1\n```"),), "What follows add is not a JSON"),
    ("Action: add\nAction Input: 1", (Text("Action: add\nAction Input: 1"),), "What follows add is not a JSON"),
    ("Action: `", (Text("Action: `"),), "The Action names no tool."),
    ('Action: add {"a": 1]}', (Text('Action: add {"a": 1]}'),), "The arguments of add are not a JSON object: "),
]


@pytest.mark.parametrize(("text", "parts"), READABLE + DRESSED)
def test_what_can_be_read(text: str, parts: tuple[Part, ...]) -> None:
    message, parser = read(text)
    assert message.parts == parts
    assert parser.fault is None
    assert parser.called == bool(message.tool_calls)


@pytest.mark.parametrize(("text", "parts", "fault"), BROKEN)
def test_what_cannot_be_read_is_kept_and_told(text: str, parts: tuple[Part, ...], fault: str) -> None:
    message, parser = read(text)
    assert message.parts == parts
    assert parser.fault is not None
    assert parser.fault.startswith(fault)
    assert "Write one line `Action: tool" in parser.fault
    assert not parser.called


TEXTS = [text for text, _ in READABLE + DRESSED] + [text for text, _, _ in BROKEN]


def test_letter_by_letter_is_the_same() -> None:
    for text in sample(TEXTS, 25):
        message, parser = read(text)
        again, other = read(*text)
        assert (again, other.fault, other.called) == (message, parser.fault, parser.called)
        for cut in range(len(text)):
            assert read(text[:cut], "", text[cut:])[0] == message


WORDS = st.sampled_from(
    [
        "Thought", "Action", "Observation", "FINAL_ANSWER", "Final Answer", " ", ":", "\n", "\n\n", "add", "{", "}",
        '"', "\\", "a", "1", "[", "]", ",", '{"a": 1}', "Thought: so", "\nAction: ", "\nObservation:", "\t", "é", "İ",
        "**", "`", "```json", "#", "(", ")", "1:", "Action Input", "\ufeff",
    ]
)  # fmt: skip


@given(st.lists(WORDS, max_size=14), st.data())
@example(["Thought: so", "\nAction: ", "add", '{"a": 1}'], None)
def test_cutting_changes_nothing(words: list[str], data: st.DataObject | None) -> None:
    text = "".join(words)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=8))) if data is not None else []
    pieces = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    message, parser = read(text)
    again, other = read(*pieces)
    assert (again, other.fault, other.called) == (message, parser.fault, parser.called)


def test_pieces_come_as_soon_as_they_are_certain() -> None:
    parser = ReactParser("id")
    seen: list[list[PartDelta]] = [
        parser.feed(piece) for piece in ("Thought: one", " two ", "\nAct", 'ion: add {"a"', ": 1", "}", " whatever")
    ]
    told = ["".join(getattr(delta, "text", "call") for delta in deltas) for deltas in seen]
    assert told == ["one", " two", "", "", "", "", ""]
    assert [type(delta) for delta in parser.finish()] == [ToolCallDelta]
    answer = ReactParser("id")
    assert answer.feed("Action: FINAL_ANSWER It") != []
    assert answer.feed(" is") != []


def test_depth_and_length_do_no_harm() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    message, parser = read('Action: f {"a": ' + deep + "}")
    assert parser.fault is not None
    assert "nested more than 200 levels deep" in parser.fault
    assert message.text.startswith("Action: f")
    long = '{"a": "' + "x" * 50_000 + '"}'
    message, parser = read(*("Action: f " + long))
    assert message.tool_calls == (call("f", long),)
    message, _ = read("Action: FINAL_ANSWER " + "a\n" * 50_000)
    assert len(message.text) == 99_999


def test_lone_surrogates_are_a_fault_not_a_crash() -> None:
    _, parser = read('Action: f {"a": "\ud800"}')
    assert parser.fault is not None
