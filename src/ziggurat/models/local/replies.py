"""What a model in a GGUF file is shown and replies: the conversation for its chat template, the grammar of replies, and
their parts, read while they are generated.

A model is asked first for a JSON array of the calls that are needed now, such as
``[{"name": "weather", "arguments": {"city": "Rome"}}]``, so it may call several tools at once. Among the tools it sees
one that stands for an answer in words; if it chooses that one, it is asked for the answer. So a text that only
describes a call is never taken for an answer, and a greeting does not become a call: a small model chooses better among
things that have names than between calling and not calling.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec

from ziggurat.core import codec
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages.formatting import shortened
from ziggurat.messages.message import Message, PartDelta, TextDelta, ThinkingDelta, ToolCall, ToolCallDelta, ToolResult
from ziggurat.messages.model import ModelRequest, ToolSpec
from ziggurat.models.local.engine import ChatTemplate, Thinking
from ziggurat.models.local.spans import Statements

ChatMessage = dict[str, Any]


def chat_messages(request: ModelRequest, tools: Sequence[ToolSpec], template: ChatTemplate) -> list[ChatMessage]:
    """Return the conversation; what the template cannot express is put into text."""
    system = "\n\n".join(_system(request, tools, template))
    messages: list[ChatMessage] = [{"role": "system", "content": system}] if system else []
    for message in request.messages:
        _append(messages, _native(message) if template.calls else _plain(message))
    if not template.system and system:
        messages.pop(0)
        at = next((at for at, message in enumerate(messages) if message["role"] == "user"), None)
        if at is None:
            return [{"role": "user", "content": system}, *messages]
        messages[at] = {"role": "user", "content": f"{system}\n\n{messages[at]['content']}"}
    return messages


def tool_functions(tools: Sequence[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
        }
        for tool in (*tools, reply_tool(tools))
    ]


def _system(request: ModelRequest, tools: Sequence[ToolSpec], template: ChatTemplate) -> Iterator[str]:
    if request.instructions:
        yield request.instructions
    if tools:
        yield calls_prompt(reply_tool(tools).name)
        if not template.tools:
            yield "\n".join(("The functions:", *(json.dumps(tool) for tool in tool_functions(tools))))
    elif request.output is not None:
        yield schema_prompt(request.output.schema)


def _append(messages: list[ChatMessage], more: Iterator[ChatMessage]) -> None:
    """Add messages; templates expect turns, so texts of one role that follow each other become one message."""
    for message in more:
        last = messages[-1] if messages else {}
        if message.keys() == last.keys() == {"role", "content"} and message["role"] == last["role"]:
            messages[-1] = {**message, "content": f"{last['content']}\n{message['content']}"}
        else:
            messages.append(message)


def _native(message: Message) -> Iterator[ChatMessage]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
    ]
    if calls:
        yield {"role": "assistant", "content": message.text, "tool_calls": calls}
    elif message.text:
        yield {"role": "user" if message.role == "tool" else message.role, "content": message.text}
    for result in message.tool_results:
        yield {"role": "tool", "tool_call_id": result.id, "name": result.name, "content": _content(result)}


def _plain(message: Message) -> Iterator[ChatMessage]:
    lines = [message.text] if message.text else []
    if message.tool_calls:
        written = (f'{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}' for call in message.tool_calls)
        lines.append(f"[{', '.join(written)}]")
    lines += [f"Result of {result.name}: {_content(result)}" for result in message.tool_results]
    if lines:
        yield {"role": "user" if message.role == "tool" else message.role, "content": "\n".join(lines)}


def _content(result: ToolResult) -> str:
    return result.text if result.error is None else f"error: {result.text or result.error}"


_MOST_CALLS = 16
_OPEN, _CLOSE = "<think>", "</think>"
_REPLY = (
    "Answer in words: greetings, thanks, small talk, general questions, and requests that no other function serves."
)


def reply_tool(tools: Sequence[ToolSpec]) -> ToolSpec:
    """Return the tool that stands for an answer in words; its name is none of the others'."""
    name, names = "reply", {tool.name for tool in tools}
    while name in names:
        name += "_"
    return ToolSpec(name, _REPLY)


def calls_prompt(reply: str) -> str:
    return (
        "Begin each reply with a JSON array of the function calls that are needed now, one for each thing to do: "
        '[{"name": <function-name>, "arguments": <args-json-object>}, ...]. If no function fits the request, call only '
        f"the function {reply}. Copy values as the user wrote them."
    )


def choice_of(reply: str) -> str:
    """Return the beginning of an array of calls with which a model chooses to answer; its reply ends there."""
    return f'[{{"name": {json.dumps(reply)}'


def answer_prompt(repeated: Sequence[str], results: bool, output: Mapping[str, Any] | None) -> str:
    lead = ""
    if repeated:
        lead = f"{', '.join(dict.fromkeys(repeated))} has answered already, and would answer the same again. "
    elif not results:
        lead = "No function was called, so nothing was done. "
    if output is not None:
        return lead + schema_prompt(output)
    return lead + ("Tell me in plain words what the functions returned." if results else "Answer me in plain words.")


def schema_prompt(schema: Mapping[str, Any]) -> str:
    return f"Answer with JSON that fits this JSON Schema: {json.dumps(schema, ensure_ascii=False)}"


def calls_grammar(
    tools: Sequence[ToolSpec], reply: str | None, *, parallel: bool = True, thinking: Thinking = "never"
) -> str:
    """Return the grammar of an array of calls, in the language of llguidance."""
    more = f'(", " call){{0,{_MOST_CALLS - 1}}} ' if parallel else ""
    # The lexer does not go back, so what the choice and a call have in common is a lexeme of its own.
    choice = "" if reply is None else f" | {json.dumps(choice_of(reply)[1:])}"
    array = f'"[" (call {more}"]"{choice})'
    lines = [*_start(array, thinking), "call: " + " | ".join(f"call_{number}" for number in range(len(tools)))]
    for number, tool in enumerate(tools):
        head = f'{{"name": {json.dumps(tool.name)}, "arguments": '
        lines.append(f'call_{number}: {json.dumps(head)} arguments_{number} "}}"')
        lines.append(f"arguments_{number}: {json_rule(tool.parameters)}")
    return "\n".join(lines) + "\n"


def json_rule(schema: Mapping[str, Any]) -> str:
    """Return the body of a grammar's rule for JSON that fits a schema, on one line."""
    guidance = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "lenient": True}
    return f"%json {json.dumps({**_closed(schema), 'x-guidance': guidance})}"


def _closed(schema: Any) -> Any:
    """Return a schema whose objects allow no unnamed properties where it is silent about them."""
    if not isinstance(schema, Mapping):
        return schema
    closed = dict(schema)
    for place in ("properties", "$defs", "definitions"):
        if isinstance(closed.get(place), Mapping):
            closed[place] = {name: _closed(part) for name, part in closed[place].items()}
    for place in ("anyOf", "oneOf", "prefixItems"):
        if isinstance(closed.get(place), list):
            closed[place] = [_closed(part) for part in closed[place]]
    if "items" in closed:
        closed["items"] = _closed(closed["items"])
    if "properties" in closed and not closed.keys() & {"additionalProperties", "patternProperties", "allOf"}:
        closed["additionalProperties"] = False
    return closed


def answer_grammar(output: Mapping[str, Any] | None = None, *, thinking: Thinking = "never") -> str:
    answer = r"/[^\s\[{<`](.|\n)*/" if output is None else json_rule(output)
    return "\n".join((*_start("answer", thinking), f"answer: {answer}")) + "\n"


def _start(reply: str, thinking: Thinking) -> Iterator[str]:
    yield "%llguidance {}"
    if thinking == "never":
        yield f"start: {reply}"
        return
    thought = "thought blank" if thinking == "begun" else f'("{_OPEN}" thought blank)?'
    yield f"start: {thought} ({reply})"
    yield f"thought[lazy]: /(.|\\n)*{_CLOSE.replace('/', chr(92) + '/')}/"
    yield r"blank: /\s*/"


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw


class ReplyReader:
    """Reads a reply while it is generated: its thought and text as they come, its calls at its end."""

    def __init__(
        self,
        first: int = 1,
        answered: Collection[str] = (),
        *,
        calls: bool = True,
        choice: str = "[]",
        revise: Callable[[ToolCall], ToolCall] | None = None,
        thinking: bool = False,
    ) -> None:
        self._revise = revise  # returns a call as it is passed on
        self._choice = choice  # with which the model chooses to answer
        self._calls = calls
        self._first = first
        self._answered = answered  # the fingerprints of calls that are left out
        self._state: Literal["start", "thought", "reply", "calls", "text"] = "thought" if thinking else "start"
        self._rest = ""
        self._array: list[str] = []  # the pieces of the calls
        self.count: int = 0
        self.repeated: list[str] = []
        self.complete: bool = True
        """Whether the array of calls, if there is one, is whole; known at the end."""

    def push(self, piece: str) -> list[PartDelta]:
        if self._state == "calls":
            self._array.append(piece)
            return []
        deltas: list[PartDelta] = []
        self._rest += piece
        begun = self._rest.lstrip()
        if self._state == "start" and begun.startswith(_OPEN):
            self._state, self._rest = "thought", begun[len(_OPEN) :]
        elif self._state == "start" and not _OPEN.startswith(begun):
            self._state = "reply"
        if self._state == "thought":
            deltas += self._think()
        begun = self._rest.lstrip()
        if self._state == "reply" and self._calls and begun.startswith("["):
            self._state, self._rest, self._array = "calls", "", [begun]
        elif self._state == "reply" and begun:
            self._state, self._rest = "text", begun
        if self._state == "text" and self._rest:
            deltas.append(TextDelta(self._rest))
            self._rest = ""
        return deltas

    def end(self) -> list[PartDelta]:
        if self._state == "calls":
            array = "".join(self._array)
            return [] if array == self._choice else self._read_calls(array)
        rest, self._rest = self._rest, ""
        if not rest.strip():
            return []
        return [ThinkingDelta(rest) if self._state == "thought" else TextDelta(rest)]

    def _think(self) -> list[PartDelta]:
        thought, ended, rest = self._rest.partition(_CLOSE)
        if ended:
            self._state, self._rest = "reply", rest
        else:
            overlap = _overlap(thought, _CLOSE)
            thought, self._rest = thought[: len(thought) - overlap], thought[len(thought) - overlap :]
        return [ThinkingDelta(thought)] if thought else []

    def _read_calls(self, array: str) -> list[PartDelta]:
        try:
            found = codec.decoder(list[_Call]).decode(array)
        except (msgspec.DecodeError, UnicodeError, RecursionError):  # cut, or a grammar of the caller's allowed it
            self.complete = False
            return []
        return [delta for each in found if (delta := self._delta_of(each)) is not None]

    def _delta_of(self, written: _Call) -> ToolCallDelta | None:
        call = ToolCall(f"call-{self._first + self.count}", written.name, bytes(written.arguments).decode())
        if self._revise is not None:
            call = self._revise(call)
        if self._answered and call.fingerprint() in self._answered:
            self.repeated.append(call.name)
            return None
        delta = ToolCallDelta(self.count, call.arguments, call.id, call.name)
        self.count += 1
        return delta


def _overlap(text: str, mark: str) -> int:
    return next((size for size in range(min(len(text), len(mark) - 1), 0, -1) if mark.startswith(text[-size:])), 0)


# -- the requests of a turn --------------------------------------------------------------------------------------------

_TRY_AGAIN = frozenset({"transient", "timeout", "interrupted"})

_LONGEST_REPLY = 512  # the maximum of tokens in a reply if the caller sets none; small models seldom stop by themselves


class Prompt:
    """The requests to llama.cpp for one request; the second begins as the first, so its prefix is not read again."""

    def __init__(
        self,
        request: ModelRequest,
        tools: Sequence[ToolSpec],
        template: ChatTemplate,
        stated_only: bool,
        only_calls: bool,
    ) -> None:
        self.tools = tools
        self._reply: str = reply_tool(tools).name
        self._stated_only = stated_only
        self._only_calls = only_calls and bool(request.tools)
        self._request = request
        self._settings = request.settings
        self._required = request.settings.tool_choice not in (None, "auto", "none")
        self._template = template
        self._thinking: Thinking = "never" if request.settings.reasoning == "none" else template.thinking
        self._variables: dict[str, Any] = {"tools": tool_functions(tools)} if tools and template.tools else {}
        if request.settings.reasoning == "none":
            self._variables["enable_thinking"] = False

    def reader(self, *, calls: bool = True) -> ReplyReader:
        first = sum(len(message.tool_calls) for message in self._request.messages) + 1
        answered = () if self._required else _answered(self._request)
        revise = self._revision() if calls and self._stated_only else None
        thinking = self._thinking == "begun"
        return ReplyReader(
            first, answered, calls=calls, choice=choice_of(self._reply), revise=revise, thinking=thinking
        )

    def _revision(self) -> Callable[[ToolCall], ToolCall]:
        """Return a function that leaves optional arguments that the conversation does not state out of a call."""
        tools = {tool.name: tool for tool in self.tools}
        statements = Statements("\n".join(_statements(self._request)))

        def revise(call: ToolCall) -> ToolCall:
            try:
                arguments = call.parsed()
            except InvalidArguments:  # a grammar of the caller's allowed it
                return call
            stated = statements.only(arguments, tools[call.name]) if call.name in tools else arguments
            if stated.keys() == arguments.keys():
                return call
            return msgspec.structs.replace(call, arguments=json.dumps(stated, ensure_ascii=False))

        return revise

    def for_calls(self) -> dict[str, Any]:
        grammar = calls_grammar(
            self.tools,
            None if self._required else self._reply,
            parallel=self._settings.parallel_tool_calls is not False,
            thinking=self._thinking,
        )
        return self._body(chat_messages(self._request, self.tools, self._template), grammar)

    def for_answer(self, repeated: Sequence[str] = ()) -> dict[str, Any]:
        output = None if self._request.output is None else self._request.output.schema
        messages = chat_messages(self._request, self.tools, self._template)
        if self.tools:
            results = any(message.tool_results for message in _since_user(self._request))
            choice = f'{choice_of(self._reply)}, "arguments": {{}}}}]'
            prompt = answer_prompt(repeated, results, output)
            messages += [{"role": "assistant", "content": choice}, {"role": "user", "content": prompt}]
        elif output is None:
            return self._body(messages, None)
        return self._body(messages, answer_grammar(output, thinking=self._thinking))

    def answer_of_calls(self) -> str:
        outcomes = _outcomes(self._request).values()
        failed = any(outcome.error for outcome in outcomes)
        if self._request.output is not None or not (failed or self._only_calls):
            return ""
        if not outcomes:
            names = ", ".join(tool.name for tool in self._request.tools)
            return f"I only call tools, and have called none for this request. There are: {shortened(names, 300)}."
        return "\n".join(f"{outcome.name}: {outcome.text or outcome.error or 'ok'}" for outcome in outcomes)

    def _body(self, messages: list[ChatMessage], grammar: str | None) -> dict[str, Any]:
        """Return a request to llama.cpp; by default with temperature 0 and at most 512 tokens."""
        settings = self._settings
        fields: dict[str, Any] = {
            "messages": messages,
            "chat_template_kwargs": self._variables,
            "grammar": grammar,
            "temperature": settings.temperature or 0.0,
            "max_tokens": settings.max_tokens or _LONGEST_REPLY,
            "cache_prompt": True,
            "top_p": settings.top_p,
            "stop": list(settings.stop) or None,
            "seed": settings.seed,
        }
        return {name: value for name, value in fields.items() if value is not None} | settings.extra


def _statements(request: ModelRequest) -> Iterator[str]:
    """Yield the texts of a conversation that the model did not write."""
    yield request.instructions or ""
    for message in request.messages:
        if message.role != "assistant":
            yield message.text
            yield from (result.text for result in message.tool_results)


def _since_user(request: ModelRequest) -> list[Message]:
    turn: list[Message] = []
    for message in request.messages:
        if message.role == "user" and message.origin is None:
            turn = []
        else:
            turn.append(message)
    return turn


def _answered(request: ModelRequest) -> frozenset[str]:
    """Return the fingerprints of the calls since the last user message that need not be made again."""
    outcomes = _outcomes(request).items()
    return frozenset(fingerprint for fingerprint, outcome in outcomes if outcome.error not in _TRY_AGAIN)


def _outcomes(request: ModelRequest) -> dict[str, ToolResult]:
    """Return the last result of each different call since the last user message, by the call's fingerprint."""
    calls: dict[str, ToolCall] = {}
    outcomes: dict[str, ToolResult] = {}
    for message in _since_user(request):
        calls |= {call.id: call for call in message.tool_calls}
        for result in message.tool_results:
            if result.id in calls:
                outcomes[calls[result.id].fingerprint()] = result
    return outcomes
