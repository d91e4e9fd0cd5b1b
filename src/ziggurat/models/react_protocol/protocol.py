"""The protocol of text: a request with tools as rules and turns, and the parser of the replies, piece by piece."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import PartDelta, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult
from ziggurat.models.brackets import Brackets

_Label = Literal["thought", "action", "input", "answer", "observation"]

_COLONS = ":\uff1a"
_SPACE = " \t\ufeff"
_BEFORE_COLON = " \t*0123456789"

_WORDS: dict[str, _Label] = {
    "thought": "thought",
    "action input": "input",
    "action": "action",
    "observation": "observation",
    "final answer": "answer",
}
_ANSWER = "final_answer"
_ANSWER_LENGTH = len(_ANSWER)

_LONGEST_DRESS = 64
"""The most characters of one kind (spaces, emphasis marks, digits) around a label; a line with more has no label."""


def _answer_at(text: str, at: int, final: bool, *, spaced: bool = False) -> bool | None:
    """Return whether ``FINAL_ANSWER`` is at a position in the text; None while more text is needed to know."""
    # Case is ignored, and with `spaced` a space may replace the underscore; it must not be part of a longer word.
    seen = text[at : at + _ANSWER_LENGTH].lower()
    if spaced:
        seen = seen.replace(" ", "_")
    if len(seen) < _ANSWER_LENGTH:
        return None if _ANSWER.startswith(seen) and not final else False
    if seen != _ANSWER:
        return False
    after = text[at + _ANSWER_LENGTH : at + _ANSWER_LENGTH + 1]
    if not after:
        return True if final else None
    return not (after.isalpha() or after == "_")


def _label_at(text: str, at: int, final: bool) -> tuple[_Label | None, int] | None:
    """Return the label of the line that begins at a position in the text."""
    # Small models decorate them: ``**Thought:**``, ``### Action:`` and ``Thought 1:`` are labels, too.
    end = len(text)
    for dress in (_SPACE, "#", _SPACE, "*"):
        at = _after(dress, text, at)
    if at == end:
        return (None, at) if final else None
    answer = _answer_at(text, at, final)
    if answer:
        return "answer", at + _ANSWER_LENGTH
    open_end = answer is None
    for word, label in _WORDS.items():
        seen = text[at : at + len(word)].lower()
        if seen == word:
            after = _after(_BEFORE_COLON, text, at + len(word))
            if after == end:
                open_end = True
            elif text[after] in _COLONS:
                return label, after + 1
        elif len(seen) < len(word) and word.startswith(seen):
            open_end = True
    return (None, at) if final or not open_end else None


def _open_marks(written: str) -> int:
    """Return how many emphasis marks a label opens but does not close, as in ``**Thought: ** so``."""
    bare = written.strip(_SPACE + "#" + _COLONS)
    opened = len(bare) - len(bare.lstrip("*"))
    return max(0, opened - (len(bare) - len(bare.rstrip("*"))))


def _after(signs: str, text: str, at: int) -> int:
    """Return the position after these characters, of which there are at most `LONGEST_DRESS`."""
    end = min(len(text), at + _LONGEST_DRESS)
    while at < end and text[at] in signs:
        at += 1
    return at


_MARKS = "*`\"'[("
"""Characters that models put around names of tools."""
_DRESS = _MARKS + "])," + _COLONS
_GAP = re.compile(rf"[\s*(){_COLONS}]{{0,400}}(?:`{{1,20}}(?:json)?\s{{0,400}})?", re.IGNORECASE)
"""Text between the name of a tool and its arguments; bounded, because it is read again with each piece."""
_LONGEST_NAME = 300
"""The most characters that are read as the name of a tool."""
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
    """Turns the text of one reply into deltas: thoughts and the answer as they stream, the action when complete.

    >>> parser = ReactParser("call-1")
    >>> parser.feed('Thought: add them\\nAction: add {"a": 1}') + parser.finish()
    [ThinkingDelta(text='add them'...), ToolCallDelta(index=0, arguments='{"a": 1}', id='call-1', name='add')]

    A reply has one action; text after it is ignored, and so is all text from an ``Observation:`` on, which the model
    must not write. Text before any label counts as a thought if an action follows.

    Args:
        call_id: The id of the tool call, if there is one.
    """

    def __init__(self, call_id: str) -> None:
        self._call_id = call_id
        self._text = ""
        self._at = 0
        self._line_start = True
        self._marks = 0  # emphasis marks that the latest label opened
        self._final = False
        self._lead: list[str] = []  # text before any label
        self._action: list[str] = []  # its original text with the label, in case it cannot be parsed
        self._arguments: list[str] = []
        self._name = ""
        self._thought = _Trimmed()
        self._answer = _Trimmed(colon=True)
        self._brackets = Brackets()
        self._state: Callable[[list[PartDelta]], bool] | None = self._leading
        self.fault: str | None = None
        """Why the reply cannot be parsed, as a sentence for the model; None if it can; known after `finish`."""
        self.called: bool = False
        """Whether the reply calls a tool."""

    def feed(self, text: str) -> list[PartDelta]:
        """Parse the next piece of the reply and return the deltas that are certain now."""
        if self._state is None:
            return []
        self._text = self._text[self._at :] + text if self._at < len(self._text) else text
        self._at = 0
        out: list[PartDelta] = []
        while self._state is not None and self._state(out):
            pass
        return out

    def finish(self) -> list[PartDelta]:
        """End the reply and return the remaining deltas."""
        self._final = True
        out = self.feed("")
        self._end_here()
        if self.fault is not None:
            text = "".join(self._action or self._lead)
            if text:
                out.append(TextDelta(text))
        self._state = None
        return out

    def _end_here(self) -> None:
        """Set the fault if a reply must not end in this state."""
        if self._state == self._leading:
            self._fail("The reply has no Action" if "".join(self._lead).strip() else "The reply is empty")
        elif self._state == self._thinking:
            self._fail("The reply has a Thought but no Action")
        elif self._state == self._scanning:
            self._fail(f"The arguments of {self._name} are not closed: the JSON object is cut off")

    def _fail(self, fault: str) -> bool:
        self.fault = f"{fault}. {_HOW}."
        self._state = self._broken
        return True

    # -- the states: each consumes what it can, and returns whether the next state can continue -------------------

    def _leading(self, out: list[PartDelta]) -> bool:
        text, label = self._take(("thought", "action", "answer", "observation"))
        self._lead.append(text)
        if label is not None and label != "observation":
            lead = "".join(self._lead)
            if not _FENCE.fullmatch(lead) and (piece := self._thought.push(lead)):
                out.append(ThinkingDelta(piece))
            self._lead.clear()
        return self._go(label)

    def _thinking(self, out: list[PartDelta]) -> bool:
        text, label = self._take(("thought", "action", "answer", "observation"))
        if piece := self._thought.push(text):
            out.append(ThinkingDelta(piece))
        return self._go(label)

    def _go(self, label: _Label | None) -> bool:
        if label is None:
            return False
        if label == "thought":
            self._thought.begin(self._marks)
            self._state = self._thinking
        elif label == "action":
            self._action.append("Action:")
            self._state = self._naming
        elif label == "answer":
            self._answer.begin(self._marks)
            self._state = self._answering
        else:
            self._end_here()
            self._state = self._ended
        return True

    def _naming(self, out: list[PartDelta]) -> bool:
        text, end = self._text, len(self._text)
        start = self._at
        furthest = self._at + _LONGEST_DRESS
        while start < min(end, furthest) and (text[start] in " \t" or text[start] in _MARKS):
            start += 1
        answer = _answer_at(text, start, self._final, spaced=True) if start < end else None
        if answer:
            marks = len(text[self._at : start].replace(" ", "").replace("\t", ""))
            self._answer.begin(max(0, marks - self._marks))
            self._at = start + _ANSWER_LENGTH
            self._state = self._answering
            return True
        stop = start
        while stop < end and text[stop] != "{" and not text[stop].isspace():
            stop += 1
            if stop - start > _LONGEST_NAME:
                return self._fail(f"The name of the tool is longer than {_LONGEST_NAME} characters")
        if not self._final and (answer is None or stop == end):
            return False
        self._name = text[start:stop].strip(_DRESS)
        if not self._name:
            return self._fail("The Action names no tool")
        self._action.append(text[self._at : stop])
        self._at = stop
        self._state = self._opening
        return True

    def _opening(self, out: list[PartDelta]) -> bool:
        text, end = self._text, len(self._text)
        gap = _GAP.match(text, self._at)
        at = self._at if gap is None else gap.end()
        rest = text[at : at + 4].lower()
        if not self._final and (at == end or (text[at - 1] == "`" and "json".startswith(rest))):
            return False
        if at < end and text[at] == "{":
            self._pass(at)
            self._state = self._scanning
            return True
        label = _label_at(text, at, self._final)
        if label is None:
            return False
        if label[0] == "input":
            self._pass(label[1])
            return True
        if at == end or "\n" in text[self._at : at]:
            self._call("{}", out)
            return False
        return self._fail(f"What follows {self._name} is not a JSON object")

    def _pass(self, at: int) -> None:
        self._action.append(self._text[self._at : at])
        self._at = at

    def _scanning(self, out: list[PartDelta]) -> bool:
        end = self._brackets.end_in(self._text, self._at)
        piece = self._text[self._at : end]
        self._at += len(piece)
        self._arguments.append(piece)
        self._action.append(piece)
        if end is None:
            return False
        arguments = "".join(self._arguments)
        try:
            check_depth(arguments)
            msgspec.json.decode(arguments, type=dict[str, object])
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError) as error:
            return self._fail(f"The arguments of {self._name} are not a JSON object: {error}")
        self._call(arguments, out)
        return False

    def _call(self, arguments: str, out: list[PartDelta]) -> None:
        self.called = True
        self._state = None
        out.append(ToolCallDelta(0, arguments, self._call_id, self._name))

    def _answering(self, out: list[PartDelta]) -> bool:
        text, label = self._take(("observation",))
        if piece := self._answer.push(text):
            out.append(TextDelta(piece))
        if label is not None:
            self._state = None
        return False

    def _broken(self, out: list[PartDelta]) -> bool:
        text, label = self._take(("observation",))
        (self._action or self._lead).append(text)
        if label is not None:
            self._state = self._ended
        return False

    def _ended(self, out: list[PartDelta]) -> bool:
        self._at = len(self._text)
        return False

    def _take(self, labels: tuple[_Label, ...]) -> tuple[str, _Label | None]:
        """Consume text up to the next of `labels`, or up to where more text is needed to know."""
        text, start = self._text, self._at
        while self._at < len(text):
            if self._line_start:
                read = _label_at(text, self._at, self._final)
                if read is None:
                    break
                label, after = read
                if label in labels:
                    piece = text[start : self._at]
                    self._marks = _open_marks(text[self._at : after])
                    self._at, self._line_start = after, False
                    return piece, label
                self._line_start = False
            newline = text.find("\n", self._at)
            self._line_start = newline >= 0
            self._at = newline + 1 if newline >= 0 else len(text)
        return text[start : self._at], None


FINAL_ANSWER = "FINAL_ANSWER"
"""The name in the action that ends a run, in place of a tool's name."""

_STOP = "\nObservation:"

_FORM = """\
Reply in exactly this form:

Thought: what you think, in a sentence or two
Action: tool {"argument": "value"}

Then stop. You will be shown what came of the action, in this form:

Observation: {"ok":true,"data":...}    or    {"ok":false,"error":"...","kind":"..."}

Never write an Observation yourself. One action per reply; its arguments are one JSON object."""
_END = "When you know the answer, reply:\n\nThought: why this is the answer\nAction: FINAL_ANSWER the answer"


def prompt_of(request: ModelRequest, max_observation: int, stop: Sequence[str]) -> ModelRequest:
    """Return the text-only version of `request`."""
    pieces = _join_texts(_turns(request.messages, max_observation))
    settings = request.settings
    return ModelRequest(
        Transcript.of(Message("user", pieces)),
        _instructions(request),
        settings=replace(
            settings,
            stop=tuple(dict.fromkeys((*settings.stop, _STOP, *stop))),
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
        if choice in ("required", "any"):
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
            yield from _unanswered(waiting)
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
            yield from _unanswered(waiting)
            waiting = {}
            yield from _user_turn(message)
    yield from _unanswered(waiting)


def _unanswered(calls: dict[str, ToolCall]) -> Iterator[str]:
    for call in calls.values():
        yield _action(call)


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
    try:
        check_depth(text)
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        return False
    return True
