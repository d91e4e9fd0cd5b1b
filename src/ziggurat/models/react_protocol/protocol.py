"""The protocol of text: a request with tools as rules and turns, and the parser of the replies, piece by piece."""

import re
from collections.abc import Iterator
from typing import Literal

import msgspec
from msgspec.structs import replace

from ziggurat.core.codec import check_depth, encode
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import (
    Audio,
    File,
    Image,
    Message,
    Part,
    PartDelta,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    ToolCallDelta,
    ToolResult,
    decoded,
)
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.models.brackets import Brackets

_COLONS = ":\uff1a"
_MARKS = "*`\"'[("
"""Characters that models put around names of tools."""
_DRESS = _MARKS + "])," + _COLONS

_LABEL = re.compile(
    r"[ \t\ufeff]{0,20}#{0,6}[ \t\ufeff]{0,20}(?P<open>\*{0,4})(?ai:"
    rf"(?P<word>thought|action|observation|final answer)(?P<close>[ \t*0-9]{{0,20}})[{_COLONS}]"
    r"|(?P<answer>final_answer))(?(answer)(?![^\W\d]))"
)
"""The label of a line. Small models decorate it: ``**Thought:**``, ``### Action:`` and ``Thought 1:`` are some."""
_LONGEST_LABEL = 100
_LABELS = ("thought", "action", "observation", "final answer", "final_answer")

_ANSWER = re.compile(r"[ \t*`\"'\[(]{0,20}(?ai:final[_ ]answer)(?![^\W\d])")
"""What an action begins with that is the answer; its name must not be part of a longer one."""
_LONGEST_ANSWER = 40

_GAP = rf"[\s*(){_COLONS}]*(?:`+(?:json)?\s*)?"
_INPUT = rf"#*[ \t]*\**action input[ \t*0-9]*[{_COLONS}]"
_CALL = re.compile(rf"[ \t*`\"'\[(]*(?P<name>[^\s{{]*)(?P<gap>{_GAP})(?:{_INPUT}(?P<more>{_GAP}))?", re.IGNORECASE)
"""What stands before the arguments of a call."""
_FENCE = re.compile(r"\s*```\w*\s*")
_HOW = 'Write one line `Action: tool {"argument": "value"}` to call a tool, or `Action: FINAL_ANSWER text` to answer'


class _Trimmed:
    """Passes text on without space at its ends or marks of its label; `begin` starts a new paragraph on a new line."""

    def __init__(self, colon: bool = False) -> None:
        self._held: list[str] = []
        self._fresh = True
        self._any = False
        self._colon = colon
        self._marks = 0

    def begin(self, marks: int = 0) -> None:
        self._held = ["\n"] if self._any else []
        self._fresh = True
        self._marks = marks

    def push(self, text: str) -> str:
        if self._fresh:
            text = self._undressed(text.lstrip())
            if not text:
                return ""
            self._fresh = False
        trimmed = text.rstrip()
        if not trimmed:
            self._held.append(text)
            return ""
        piece = "".join((*self._held, trimmed))
        self._held, self._any = [text[len(trimmed) :]], True
        return piece

    def _undressed(self, text: str) -> str:
        while text:
            if self._colon and text[0] in _COLONS:
                self._colon = False
            elif self._marks and text[0] in _DRESS:
                self._marks -= 1
            else:
                break
            text = text[1:].lstrip()
        return text


class ReactParser:
    """Turns the text of one reply into deltas: thoughts and the answer as they stream, the action at its end.

    >>> parser = ReactParser("call-1")
    >>> parser.feed('Thought: add them\\nAction: add {"a": 1}') + parser.finish()
    [ThinkingDelta(text='add them'...), ToolCallDelta(index=0, arguments='{"a": 1}', id='call-1', name='add')]

    A reply has one action; text after it is ignored, and so is all text from an ``Observation:`` on, which the model
    must not write. Text before any label counts as a thought if an action follows.
    """

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._part: Literal["lead", "thought", "action", "answer"] = "lead"
        self._over = False  # an observation has begun, or the reply has ended
        self._text = ""  # what is not read yet
        self._line_start = True
        self._marks = 0  # emphasis marks that the latest label opened
        self._held: list[str] = []  # the text of the lead or of the action, without its label
        self._calls = False  # whether the action is known not to be the answer
        self._thought = _Trimmed()
        self._answer = _Trimmed(colon=True)
        self.fault: str | None = None
        """Why the reply cannot be parsed, as a sentence for the model; None if it can; known after `finish`."""
        self.called: bool = False
        """Whether the reply calls a tool; known after `finish`."""

    def feed(self, text: str) -> list[PartDelta]:
        """Parse the next piece of the reply and return the deltas that are certain now."""
        self._text += text
        out: list[PartDelta] = []
        while not self._over and self._step(out, final=False):
            pass
        return out

    def finish(self) -> list[PartDelta]:
        """End the reply and return the remaining deltas."""
        out: list[PartDelta] = []
        while not self._over and self._step(out, final=True):
            pass
        self._over = True
        held = "".join(self._held)
        if self._part == "lead":
            self._fail("The reply has no Action" if held.strip() else "The reply is empty")
        elif self._part == "thought":
            self._fail("The reply has a Thought but no Action")
        elif self._part == "action":
            out += self._call(held)
            held = f"Action:{held}"
        if self.fault is not None and held:
            out.append(TextDelta(held))
        return out

    def _fail(self, fault: str) -> list[PartDelta]:
        self.fault = f"{fault}. {_HOW}."
        return []

    def _step(self, out: list[PartDelta], *, final: bool) -> bool:
        """Read up to the next label, or up to where more text is needed; return whether more can be read."""
        if self._part == "action" and not self._calls:
            return self._choose(final)
        text, label = self._take(final)
        if self._part == "thought":
            if piece := self._thought.push(text):
                out.append(ThinkingDelta(piece))
        elif self._part == "answer":
            if piece := self._answer.push(text):
                out.append(TextDelta(piece))
        elif text:
            self._held.append(text)
        if label == "observation":
            self._over = True
        elif label is not None:
            self._enter(label, out)
        return label is not None

    def _enter(self, label: str, out: list[PartDelta]) -> None:
        if self._part == "lead":
            lead = "".join(self._held)
            self._held.clear()
            if not _FENCE.fullmatch(lead) and (piece := self._thought.push(lead)):
                out.append(ThinkingDelta(piece))
        if label == "thought":
            self._part = "thought"
            self._thought.begin(self._marks)
        elif label == "action":
            self._part = "action"
        else:
            self._part = "answer"
            self._answer.begin(self._marks)

    def _choose(self, final: bool) -> bool:
        """Decide whether an action is the answer; return whether it is known."""
        answer = _ANSWER.match(self._text)
        begun = self._text.lstrip(" \t" + _MARKS).replace(" ", "_").lower()
        is_open = "final_answer".startswith(begun[:12]) if answer is None else answer.end() == len(self._text)
        if is_open and not final and len(self._text) < _LONGEST_ANSWER:
            return False
        if answer is None:
            self._calls = True
            return True
        marks = sum(char in _MARKS for char in answer[0])
        self._part, self._text = "answer", self._text[answer.end() :]
        self._answer.begin(max(0, marks - self._marks))
        return True

    def _call(self, text: str) -> list[PartDelta]:
        """Return the call that an action makes."""
        form = _CALL.match(text)
        assert form is not None  # it matches an empty text, too
        name, gap, start = form["name"].strip(_DRESS), form["gap"] if form["more"] is None else form["more"], form.end()
        if not name:
            return self._fail("The Action names no tool")
        arguments = "{}"
        if text.startswith("{", start):
            end = Brackets().end_in(text, start)
            if end is None:
                return self._fail(f"The arguments of {name} are not closed: the JSON object is cut off")
            arguments = text[start:end]
            try:
                check_depth(arguments)
                msgspec.json.decode(arguments, type=dict[str, object])
            except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
                return self._fail(f"The arguments of {name} are not a JSON object: {error}")
        elif start < len(text) and "\n" not in gap:
            return self._fail(f"What follows {name} is not a JSON object")
        self.called = True
        return [ToolCallDelta(0, arguments, self._call_id, name)]

    def _take(self, final: bool) -> tuple[str, str | None]:
        """Consume text up to the next label, or up to where more text is needed to know."""
        text, at = self._text, 0
        while at < len(text):
            if self._line_start:
                label = _LABEL.match(text, at)
                if not final and text.find("\n", at) < 0 and self._is_open(text, at, label):
                    break
                word = None if label is None else (label["word"] or "answer").lower()
                if label is not None and (word == "observation" or self._part in ("lead", "thought")):
                    self._marks = max(0, len(label["open"]) - (label["close"] or "").count("*"))
                    self._text, self._line_start = text[label.end() :], False
                    return text[:at], word
            newline = text.find("\n", at)
            self._line_start = newline >= 0
            at = newline + 1 if newline >= 0 else len(text)
        self._text = text[at:]
        return text[:at], None

    @staticmethod
    def _is_open(text: str, at: int, label: re.Match[str] | None) -> bool:
        """Return whether more text may make a line begin with a label, or with none."""
        if label is not None:
            return label.end() == len(text)
        begun = text[at : at + _LONGEST_LABEL].lstrip(" \t\ufeff#*").lower()
        return len(text) - at < _LONGEST_LABEL and any(word.startswith(begun[: len(word)]) for word in _LABELS)


FINAL_ANSWER = "FINAL_ANSWER"
"""The word that ends a run of `react`, in place of a tool's name: ``Action: FINAL_ANSWER It is 42.``"""

_STOP = "\nObservation:"

_FORM = """\
Reply in exactly this form:

Thought: what you think, in a sentence or two
Action: tool {"argument": "value"}

Then stop. You will be shown what came of the action, in this form:

Observation: {"ok":true,"data":...}    or    {"ok":false,"error":"...","kind":"..."}

Never write an Observation yourself. One action per reply; its arguments are one JSON object."""
_END = "When you know the answer, reply:\n\nThought: why this is the answer\nAction: FINAL_ANSWER the answer"


def prompt_of(request: ModelRequest, max_observation: int) -> ModelRequest:
    """Return the text-only version of `request`."""
    pieces = _join_texts(_turns(request.messages, max_observation))
    settings = request.settings
    return ModelRequest(
        Transcript.of(Message("user", pieces)),
        _instructions(request),
        settings=replace(
            settings,
            stop=tuple(dict.fromkeys((*settings.stop, _STOP))),
            tool_choice=None,
            parallel_tool_calls=None,
        ),
    )


def _instructions(request: ModelRequest) -> str:
    choice = request.settings.tool_choice
    tools = () if choice == "none" else request.tools
    paragraphs = [request.instructions] if request.instructions else []
    if tools:
        paragraphs.append("You can use these tools:\n" + "\n".join(map(_tool, tools)))
        paragraphs.append(_FORM)
        if choice == "required":
            paragraphs.append("In this reply you must call a tool.")
        elif choice not in (None, "auto"):
            paragraphs.append(f"In this reply you must call the tool {choice}.")
    paragraphs.append(_END)
    if request.output is not None:
        schema = encode(request.output.schema).decode()
        paragraphs.append(f"The answer after {FINAL_ANSWER} must be JSON that fits this schema: {schema}")
    return "\n\n".join(paragraphs)


def _tool(spec: ToolSpec) -> str:
    about = " ".join(spec.description.split())
    return f"- {spec.name}: {about}\n  arguments: {encode(spec.parameters).decode()}"


def _turns(messages: Transcript, max_observation: int) -> Iterator[str | Part]:
    waiting: dict[str, ToolCall] = {}
    for index, message in enumerate(messages):
        if message.role == "assistant":
            yield from map(_action, waiting.values())
            repaired = index + 1 < len(messages) and messages[index + 1].origin == "runtime"
            yield from _model_turn(message, repaired)
            waiting = {call.id: call for call in message.tool_calls}
        elif message.role == "tool":
            for result in message.tool_results:
                call = waiting.pop(result.id, None)
                if call is not None:
                    yield _action(call)
                yield observation(result, max_observation)
                if not isinstance(result.content, str):
                    yield from (part for part in result.content if not isinstance(part, Text))
        else:
            yield from map(_action, waiting.values())
            waiting = {}
            yield from _user_turn(message)
    yield from map(_action, waiting.values())


def _action(call: ToolCall) -> str:
    return f"Action: {call.name} {call.arguments}"


def _model_turn(message: Message, repaired: bool) -> Iterator[str]:
    """Yield the thoughts and texts of a model's message; its calls come later, before their observations."""
    if message.thinking:
        yield f"Thought: {message.thinking}"
    if not message.text:
        return
    if message.tool_calls:
        yield f"Thought: {message.text}"
    elif repaired and not _is_json(message.text):
        yield message.text  # a malformed reply, shown as it was
    else:
        yield f"Action: {FINAL_ANSWER} {message.text}"


def _user_turn(message: Message) -> Iterator[str | Part]:
    who = "System" if message.role == "system" or message.origin == "runtime" else "User"
    yield f"{who} ({message.name}): {message.text}" if message.name else f"{who}: {message.text}"
    yield from (part for part in message.parts if isinstance(part, (Image, Audio, File)))


def _join_texts(turns: Iterator[str | Part]) -> tuple[Part, ...]:
    """Join consecutive texts, so that a conversation without images is a single text."""
    parts: list[Part] = []
    texts: list[str] = []
    for turn in turns:
        if isinstance(turn, str):
            texts.append(turn)
            continue
        if texts:
            parts.append(Text("\n".join(texts)))
            texts.clear()
        if not isinstance(turn, (Thinking, ToolCall, ToolResult)):
            parts.append(turn)
    if texts:
        parts.append(Text("\n".join(texts)))
    return tuple(parts)


def observation(result: ToolResult, longest: int) -> str:
    """Return a tool result as one line; data longer than `longest` characters is cut and marked as truncated."""
    text = result.text
    left_out = len(text) - longest
    marked: dict[str, object] = {"truncated": left_out} if left_out > 0 else {}
    visible = text[:longest] if left_out > 0 else text
    if result.error is not None:
        line = encode({"ok": False, "error": visible, "kind": result.error, **marked})
    elif left_out <= 0 and _is_json(text):
        line = b'{"ok":true,"data":' + msgspec.json.format(text, indent=-1).encode() + b"}"
    else:
        line = encode({"ok": True, "data": visible, **marked})
    return f"Observation: {line.decode()}"


def _is_json(text: str) -> bool:
    return decoded(text, object) is not text
