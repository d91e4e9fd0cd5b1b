"""Write a request with tools as plain text: rules, tools, and the conversation as turns."""

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from ziggurat.core.codec import encode
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.messages.parts import Audio, File, Image, Part, Text, Thinking, ToolCall, ToolResult

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
