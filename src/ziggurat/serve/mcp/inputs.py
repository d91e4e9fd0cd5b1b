"""What a run waits for, as requests to the client, and the client's responses as decisions."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ziggurat.agents.status import RunStatus
from ziggurat.calls.awaited import ask
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.mcp.wire import REASON
from ziggurat.messages.agent import Answer, Decision, Deny, PendingItem
from ziggurat.serve.decisions import decision_of_answer, schema_of_answer
from ziggurat.serve.mcp.caller import Caller, invalid
from ziggurat.serve.mcp.contents import Json
from ziggurat.tools.decisions import question_of

_REQUEST = "x-mcp-request"  # the keyword in the schema of an answer that has the request to the client
_CAPABILITIES = {"elicitation/create": "elicitation", "sampling/createMessage": "sampling", "roots/list": "roots"}
_SIMPLE = ("string", "number", "integer", "boolean")


@checked
async def ask_client(
    method: Literal["sampling/createMessage", "roots/list"],
    params: Mapping[str, Any] | None = None,
    *,
    key: NonEmptyText | None = None,
) -> dict[str, Any]:
    """Ask the MCP client that has called a tool for a reply of its model, or for its roots, and return its result.

    ::

        reply = await serve.ask_client("sampling/createMessage", {"messages": [...], "maxTokens": 100})
        reply["content"]

    The call waits meanwhile as it does for `ask`, which puts questions to the user of the client. The protocol has
    deprecated both methods: give an agent a model of its own where you can.

    Args:
        method: ``"sampling/createMessage"`` or ``"roots/list"``.
        params: The parameters, as the protocol has them.
        key: The name of the request for the client; see `ask`.

    Raises:
        Suspend: there is no result yet. It passes through ``except Exception``.
        Denied: the client or its user has refused.
    """
    request = {"method": method, "params": dict(params or {})}
    answer = Annotated[dict[str, Any], Meta(extra_json_schema={_REQUEST: request})]
    value: dict[str, Any] = await ask(f"Request to the client: {method}", answer, key=key)
    return value


def keyed(items: Sequence[PendingItem]) -> dict[str, PendingItem]:
    """Return what waits by the keys of questions, or by its ids where there is no key, or it is taken."""
    found: dict[str, PendingItem] = {}
    for item in items:
        key = question_of(item.call).key if item.stage == "question" else ""
        found[item.id if not key or key in found else key] = item
    return found


def waiting_in(status: RunStatus) -> tuple[PendingItem, ...]:
    """Return what waits in a run for a decision; nothing in one that has ended, though its record may have it."""
    if status.status not in ("running", "Suspended"):
        return ()
    return tuple(item for item in status.pending if item.needs_decision)


def request_for(item: PendingItem) -> tuple[str, Json]:
    if item.stage == "question":
        question = question_of(item.call)
        if (request := question.answer.get(_REQUEST)) is not None:
            return request["method"], request["params"]
        message, schema = question.question, _form(question.answer)[0]
    else:
        schema = schema_of_answer(item)
        schema["properties"].pop("arguments", None)  # a form has no objects
        why = f" ({item.reason})" if item.reason else ""
        message = f"Approve this call?{why} {item.call.name} {item.shown}"
        if item.interrupted:
            message = f"{item.call.name} was interrupted, and may have taken effect: {item.shown}"
    return "elicitation/create", {"mode": "form", "message": message, "requestedSchema": schema}


def capability_of(item: PendingItem) -> str:
    return _CAPABILITIES[request_for(item)[0]]


def input_requests(items: Sequence[PendingItem] | Mapping[str, PendingItem], caller: Caller) -> Json:
    named = items if isinstance(items, Mapping) else {item.id: item for item in items}
    requests: Json = {}
    for key, item in named.items():
        if caller.can(capability_of(item)):
            method, params = request_for(item)
            requests[key] = {"method": method, "params": params}
    return requests


def decision_of(item: PendingItem, response: object) -> Decision:
    if not isinstance(response, dict):
        raise invalid(f"a response to an input request is an object, got {response!r:.100}")
    if request_for(item)[0] != "elicitation/create":
        return Answer(response)
    action, content = response.get("action"), response.get("content")
    if action in ("decline", "cancel"):
        places = ((content, "reason"), (response.get("_meta"), REASON))
        stated = [each.get(name) for each, name in places if isinstance(each, dict)]
        why = next((each for each in stated if isinstance(each, str) and each), "")
        return Deny(why or f"the user has chosen to {action}")
    if action != "accept" or not isinstance(content, dict):
        raise invalid("an elicitation is answered with an action, and content if it is accept")
    if item.stage == "question" and (wraps := _form(question_of(item.call).answer)[1]):
        return Answer(_unwrapped(content, wraps))
    return decision_of_answer(item, content)


def _form(answer: Json) -> tuple[Json, str]:
    """Return the form for an answer, and how one that is no object of simple fields is wrapped: plain or json."""
    fields = answer.get("properties")
    if answer.get("type") == "object" and isinstance(fields, dict) and fields:
        simple = {name: _field(field) for name, field in fields.items()}
        if all(field is not None for field in simple.values()):
            return {"type": "object", "properties": simple, "required": answer.get("required", [])}, ""
    field, wraps = _field(answer), "plain"
    if field is None:
        text = msgspec.json.encode(answer).decode()
        field, wraps = {"type": "string", "title": "Answer as JSON", "description": f"It fits {text:.2000}"}, "json"
    return {"type": "object", "properties": {"answer": field}, "required": ["answer"]}, wraps


def _field(schema: Json) -> Json | None:
    if "enum" in schema and "type" not in schema and all(isinstance(each, str) for each in schema["enum"]):
        schema = {"type": "string", **schema}
    if schema.get("type") == "array":
        items = _field(schema.get("items", {}))
        if items is None or not {"enum", "anyOf", "oneOf"} & items.keys():
            return None
        if "anyOf" in items:
            items.pop("type")
        return {**schema, "items": items}
    return dict(schema) if schema.get("type") in _SIMPLE else None


def _unwrapped(content: Json, wraps: str) -> object:
    value = content.get("answer")
    if wraps == "plain":
        return value
    try:
        return msgspec.json.decode(str(value))
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid(f"the answer is not JSON: {error}") from error
