"""Answers to what servers ask during a call: a question to a person, a reply of a model."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Raw, Struct

from ziggurat.calls.awaited import ask_for_json
from ziggurat.calls.model_call import ask_model
from ziggurat.core.context import AMBIENT, JOURNAL, Context
from ziggurat.core.errors import ConfigurationError, Denied, ZigguratError
from ziggurat.core.log import logger
from ziggurat.core.service import fact, name_of
from ziggurat.core.visible import visible
from ziggurat.mcp import wire
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.model import MODEL_NAME, Model, ModelRequest, ModelSettings
from ziggurat.tools.validator import SchemaValidator
from ziggurat.wires.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpcError, parse

_LONGEST = 4_000  # characters of what a server says to a person
_MOST_TOKENS = 8_192
_DONE = {"type": "boolean"}


class Elicitation(Struct, frozen=True, rename="camel"):
    """What a server asks a person.

    Attributes:
        server: The server's name, as it is known here.
        message: The text.
        schema: The JSON Schema of the answer, an object; None if the person is to open an address.
        url: The address to open, which nobody has checked.
    """

    server: str
    message: str
    schema: dict[str, Any] | None = None
    url: str | None = None


Elicit = Callable[[Elicitation], Awaitable[dict[str, Any] | None]]
"""Answers a question of a server; with None it is declined, as by `Denied`, whose text is the reason."""


class _Asked(Struct, frozen=True, rename="camel"):
    message: str
    mode: str = "form"
    requested_schema: dict[str, Any] | None = None
    url: str = ""


class _Sampling(Struct, frozen=True, rename="camel"):
    messages: list[wire.Said]
    max_tokens: int = _MOST_TOKENS
    system_prompt: str | None = None
    temperature: float | None = None
    stop_sequences: list[str] = []


class Answers(Struct, frozen=True, eq=False):
    server: str
    model: Model | None
    elicit: Elicit | None
    roots: tuple[str, ...] = ()

    async def __call__(self, method: str, params: Raw, ctx: Context) -> object:
        if method == "roots/list" and self.roots:
            return wire.roots_result(self.roots)
        if method == "elicitation/create":
            return await self._elicit(parse(params, _Asked))
        if method == "sampling/createMessage" and self.model is not None:
            try:
                return await self._sample(self.model, parse(params, _Sampling), ctx)
            except ZigguratError as error:
                if isinstance(error, JsonRpcError):
                    raise
                raise JsonRpcError(f"the model gave no reply: {error}") from error
        raise JsonRpcError(f"{method:.60} is not answered here", METHOD_NOT_FOUND)

    async def _elicit(self, asked: _Asked) -> dict[str, Any]:
        message = visible(asked.message[:_LONGEST])
        if asked.mode == "url":
            if not asked.url.startswith(("https://", "http://")):
                raise JsonRpcError("an address begins with https://", INVALID_PARAMS)
            elicitation = Elicitation(self.server, message, url=asked.url)
        else:
            elicitation = Elicitation(self.server, message, _checked(asked.requested_schema))
        try:
            content = await (_ask_in_run(elicitation) if self.elicit is None else self.elicit(elicitation))
        except Denied as denied:  # the protocol has no place for the reason
            return {"action": "decline", "_meta": {wire.REASON: str(denied).removeprefix("denied: ")[:_LONGEST]}}
        except ConfigurationError as error:
            logger.warning("the MCP server %s asks something that nobody can answer here: %s", self.server, error)
            return {"action": "cancel"}
        if content is None:
            return {"action": "decline"}
        if elicitation.schema is None:
            return {"action": "accept"}
        content = _defaults(elicitation.schema) | content
        problems = SchemaValidator(elicitation.schema).problems(content)
        if problems:
            raise JsonRpcError(f"the answer does not fit: {problems[0]}")
        return {"action": "accept", "content": content}

    async def _sample(self, model: Model, asked: _Sampling, ctx: Context) -> dict[str, Any]:
        messages = [wire.message_of(each) for each in asked.messages]
        settings = ModelSettings(
            temperature=asked.temperature,
            max_tokens=max(1, min(asked.max_tokens, _MOST_TOKENS)),
            stop=tuple(asked.stop_sequences),
        )
        request = ModelRequest(Conversation(messages).view(), asked.system_prompt, (), settings)
        if JOURNAL in ctx.scope and ctx.charges is None:
            response = await ask_model(model, request, ctx.under("sampling"), name_of(model))
        else:
            response = await model(request, ctx.under("sampling"))
        name = fact(model, MODEL_NAME) or name_of(model)
        reason = "maxTokens" if response.finish == "length" else "endTurn"
        content = {"type": "text", "text": response.text}
        return {"role": "assistant", "content": content, "model": name, "stopReason": reason}


async def _ask_in_run(asked: Elicitation) -> dict[str, Any] | None:
    """Ask as a question of the run that makes the call; it waits for the answer, for days if need be."""
    ambient = AMBIENT.get()
    if ambient is None or JOURNAL not in ambient.scope:
        raise ConfigurationError("a question of a server is asked in a run, or with mcp(elicit=...)")
    text = f"The MCP server {asked.server} asks: {asked.message}"
    if asked.schema is None:
        opened = await ask_for_json(f"{text}\nOpen {visible(asked.url or '')} and answer true when done.", _DONE)
        return {} if opened is True else None
    answer = await ask_for_json(text, asked.schema)
    return answer if isinstance(answer, dict) else None


def _checked(schema: dict[str, Any] | None) -> dict[str, Any]:
    if schema is None or schema.get("type") != "object":
        raise JsonRpcError("requestedSchema must be the JSON Schema of an object", INVALID_PARAMS)
    try:
        SchemaValidator(schema, "requestedSchema")
    except ConfigurationError as error:
        raise JsonRpcError(str(error), INVALID_PARAMS) from error
    return schema


def _defaults(schema: dict[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return {}
    return {name: each["default"] for name, each in properties.items() if isinstance(each, dict) and "default" in each}
