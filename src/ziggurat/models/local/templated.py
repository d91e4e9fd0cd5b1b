"""Any GGUF file as a model: with its own chat template, and tool calls under a grammar made from the tools' schemas."""

__all__ = ["AnswerText", "TemplatedModel", "reply_schema"]

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ziggurat.core.context import Context
from ziggurat.core.facts import NAME, Fact
from ziggurat.messages.delta import ToolCallDelta
from ziggurat.messages.events import Delta
from ziggurat.messages.facts import MODEL_NAME, OUTPUT_MODES, WINDOW
from ziggurat.messages.limits import check_depth
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelRequest, ModelResponse, ToolSpec
from ziggurat.messages.parts import Text, ToolCall
from ziggurat.models.local.engine import Engine
from ziggurat.models.local.speech import Spoken, body_of, chat_messages, grammar_of, offered, speak

_HOW = (
    'You can call tools. To call one, reply with {"tool": its name, "arguments": an object}. '
    'When you know the answer, reply with {"answer": the answer}. The tools:'
)


class TemplatedModel:
    """A model service over any GGUF file that has a chat template.

    If there are tools, a grammar restricts the reply to JSON, so every call names an existing tool and has arguments
    that fit its schema. How good the choice is depends on the model.

    Args:
        engine: The loaded file.
        name: Its name, by default that of the file.
    """

    def __init__(self, engine: Engine, *, name: str | None = None) -> None:
        self.engine = engine
        self._name = name
        self.facts: Mapping[Fact[Any], object] = {
            NAME: f"local:{name or engine.path.stem}",
            MODEL_NAME: engine.path.stem,
            WINDOW: engine.context,
            OUTPUT_MODES: ("native", "tool", "prompted"),
        }

    def __repr__(self) -> str:
        return f"local({self._name or str(self.engine.path)!r})"

    async def __call__(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        """Answer a request.

        Raises:
            ConfigurationError: the request requires a tool that is not among its tools.
            MissingExtra: the extra ``local`` is not installed.
            ModelError: the request cannot be served.
        """
        tools = offered(request)
        if not tools:
            return await self._talk(request, ctx)
        output = request.output.schema if request.output is not None else None
        must = request.settings.tool_choice not in (None, "auto")
        said = AnswerText()
        body = body_of(
            request.settings,
            messages=_with_tools(chat_messages(request), tools),
            grammar=grammar_of(reply_schema(tools, output, must_call=must)),
        )
        spoken = await speak(self.engine, "chat", body, ctx, said.push if output is None else None)
        return await self._read(spoken, request, ctx)

    async def _talk(self, request: ModelRequest, ctx: Context) -> ModelResponse:
        fields: dict[str, Any] = {"messages": chat_messages(request)}
        if request.output is not None:
            fields["grammar"] = grammar_of(request.output.schema)
        spoken = await speak(self.engine, "chat", body_of(request.settings, **fields), ctx)
        parts = (Text(spoken.text),) if spoken.text else ()
        return ModelResponse(Message("assistant", parts), spoken.finish, spoken.usage, self.engine.path.stem)

    async def _read(self, spoken: Spoken, request: ModelRequest, ctx: Context) -> ModelResponse:
        model = self.engine.path.stem
        try:
            check_depth(spoken.text)
            reply = json.loads(spoken.text)
        except ValueError:
            finish = "length" if spoken.finish == "length" else "malformed"
            said = AnswerText()
            text = said.push(spoken.text)
            return ModelResponse(Message("assistant", (Text(text),) if text else ()), finish, spoken.usage, model)  # type: ignore[arg-type]
        if "tool" in reply:
            before = sum(len(message.tool_calls) for message in request.messages)
            arguments = msgspec.json.encode(reply.get("arguments", {})).decode()
            call = ToolCall(f"call-{before + 1}", str(reply["tool"]), arguments)
            if ctx.listens(Delta):
                await ctx.emit(Delta(ctx.path, ToolCallDelta(0, call.arguments, call.id, call.name)))
            return ModelResponse(Message("assistant", (call,)), "tool_calls", spoken.usage, model)
        answer = reply.get("answer", "")
        text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return ModelResponse(Message("assistant", (Text(text),) if text else ()), "stop", spoken.usage, model)


def _with_tools(messages: list[dict[str, str]], tools: tuple[ToolSpec, ...]) -> list[dict[str, str]]:
    lines = [
        json.dumps({"tool": tool.name, "description": tool.description, "arguments": tool.parameters}) for tool in tools
    ]
    told = "\n".join((_HOW, *lines))
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{told}"}, *messages[1:]]
    return [{"role": "system", "content": told}, *messages]


def reply_schema(
    tools: tuple[ToolSpec, ...], output: Mapping[str, Any] | None = None, *, must_call: bool = False
) -> dict[str, Any]:
    """Return the schema of a reply: a call of one of the tools, or an answer (a text, or as `output` requires)."""
    definitions: dict[str, Any] = {}
    options = []
    for tool in tools:
        inner = dict(tool.parameters)
        for place in ("$defs", "definitions"):
            definitions |= inner.pop(place, {})
        options.append(_object(tool={"const": tool.name}, arguments=inner))
    if not must_call:
        answer: dict[str, Any] = dict(output) if output is not None else {"type": "string"}
        for place in ("$defs", "definitions"):
            definitions |= answer.pop(place, {})
        options.append(_object(answer=answer))
    schema: dict[str, Any] = {"anyOf": options} if len(options) > 1 else options[0]
    if definitions:
        schema = {**schema, "$defs": definitions, "definitions": definitions}
    return schema


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class AnswerText:
    """Extract the text of ``{"answer": "..."}`` while it is being generated.

    >>> said = AnswerText()
    >>> said.push('{"answer": "He') + said.push('llo"}')
    'Hello'
    """

    _HEAD = re.compile(r'\s*\{\s*"answer"\s*:\s*"')
    # Half of a surrogate pair is not a character, so it waits for the other half.
    _UNIT = re.compile(
        r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}|\\u(?![dD][89abAB])[0-9a-fA-F]{4}|\\[^u]'
    )

    def __init__(self) -> None:
        self._text = ""
        self._at: int | None = None

    def push(self, piece: str) -> str:
        """Add the next piece; return the new text of the answer."""
        if self._text[:1] == '"' and self._at is not None:  # the answer has ended
            return ""
        self._text += piece
        if self._at is None:
            head = self._HEAD.match(self._text)
            if head is None:
                return ""
            self._at = head.end()
        shown: list[str] = []
        while (unit := self._UNIT.match(self._text, self._at)) is not None:
            shown.append(json.loads(f'"{unit.group()}"', strict=False))
            self._at = unit.end()
        self._text, self._at = self._text[self._at :], 0
        return "".join(shown)
