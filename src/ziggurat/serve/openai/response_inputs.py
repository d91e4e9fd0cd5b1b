"""What comes to OpenAI Responses: items of earlier responses by their ids, and what no agent can answer."""

from collections.abc import Iterator

from ziggurat.core.errors import ConfigurationError
from ziggurat.serve.openai.places import ResponseId
from ziggurat.serve.openai.stored_responses import RecordedResponse
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.types import Json

_READ = frozenset(
    {
        "function_call", "function_call_output", "item_reference", "mcp_approval_request", "mcp_approval_response",
        "mcp_call", "mcp_list_tools", "message", "reasoning",
    }
)  # fmt: skip


def check_input(body: Json) -> None:
    """Raise if a request is one that no agent can answer."""
    for item in _items(body):
        if item.get("type", "message") not in _READ:
            raise ConfigurationError(f"input: agents read no items of the type {item['type']!r:.50}")
    if body.get("background") is True and body.get("store") is False:
        raise ConfigurationError("background: the response is read later, so store cannot be false")
    if body.get("conversation") is not None:
        raise ConfigurationError("conversation: there are none here; send previous_response_id, or all items")
    if body.get("prompt") is not None:
        raise ConfigurationError("prompt: there are no stored prompts here; send input and instructions")


async def with_references(body: Json, agents: ServedAgents, page: str) -> Json:
    """Return a request with the items of earlier responses in place of references to them; itself if it has none."""
    if not any(item.get("type") == "item_reference" for item in _items(body)):
        return body
    items: list[object] = []
    outputs: dict[ResponseId, dict[str, Json]] = {}
    for item in body["input"]:
        if not (isinstance(item, dict) and item.get("type") == "item_reference"):
            items.append(item)
            continue
        response_id = ResponseId.of_item(str(item.get("id")))
        if response_id is not None and response_id not in outputs:
            whole = await (await RecordedResponse.find(agents, response_id)).body(page)
            outputs[response_id] = {each["id"]: each for each in whole["output"]}
        output = {} if response_id is None else outputs[response_id]
        if item.get("id") not in output:
            raise ConfigurationError(f"input: there is no item {item.get('id')!r:.150}")
        items.append(output[item["id"]])
    return body | {"input": items}


def response_before(body: Json) -> tuple[ResponseId | None, Json]:
    """Return the response whose output a request repeats, the last one, and the request with what comes after it."""
    items = body["input"]
    for number in range(len(items) - 1, -1, -1):
        item_id = items[number].get("id") if isinstance(items[number], dict) else None
        response_id = ResponseId.of_item(item_id) if isinstance(item_id, str) else None
        if response_id is not None:
            return response_id, body | {"input": items[number + 1 :]}
    return None, body


def _items(body: Json) -> Iterator[Json]:
    listed = body.get("input")
    yield from (item for item in listed if isinstance(item, dict)) if isinstance(listed, list) else ()
