"""What a response was given for: the conversation before it as items, in pages."""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from ziggurat.agents.runnable import Runnable
from ziggurat.calls.decisions import TOOLS
from ziggurat.core.entries import Decided, JournalEntry, Opened
from ziggurat.core.errors import ConfigurationError, RunNotFound
from ziggurat.core.facts import fact
from ziggurat.core.journal import LocalJournal
from ziggurat.core.path import escaped, parent_of
from ziggurat.messages.agent import Answer, Approve, Deny, decision_of
from ziggurat.messages.message import Message
from ziggurat.messages.parts import Image, Text, Thinking, ToolCall, ToolResult
from ziggurat.messages.recorded import recorded_steps
from ziggurat.serve.response_ids import ResponseId
from ziggurat.serve.speech import tool_place
from ziggurat.wires.response_items import item_of
from ziggurat.wires.server_items import ServerCall
from ziggurat.wires.types import Json

_MOST = 100
"""Items of the longest page."""


class PageSettings(NamedTuple):
    """What page of a list is asked for: `limit` items in an order, `asc` or `desc`, after one that has an id."""

    limit: int
    order: str
    after: str | None


def page_settings(query: Mapping[str, str]) -> PageSettings:
    """Return what page a query asks for.

    Raises:
        ConfigurationError: the limit or the order is no such value.
    """
    limit, order = query.get("limit", "20"), query.get("order", "desc")
    if not (limit.isascii() and limit.isdigit() and len(limit) < 10 and 1 <= int(limit) <= _MOST):
        raise ConfigurationError(f"limit is a number from 1 to {_MOST}, got {limit!r:.50}")
    if order not in ("asc", "desc"):
        raise ConfigurationError(f"order is asc or desc, got {order!r:.50}")
    return PageSettings(int(limit), order, query.get("after"))


def item_page(items: Sequence[Json], settings: PageSettings) -> Json:
    """Return a page of items.

    Raises:
        RunNotFound: there is no item that comes before the page.
    """
    ordered = items if settings.order == "asc" else items[::-1]
    ids = [item["id"] for item in ordered]
    if settings.after is not None and settings.after not in ids:
        raise RunNotFound(f"after: there is no item {settings.after!r:.150}")
    start = 0 if settings.after is None else ids.index(settings.after) + 1
    end = start + settings.limit
    page = {"object": "list", "data": ordered[start:end], "has_more": end < len(items)}
    return page | {"first_id": next(iter(ids[start:end]), ""), "last_id": next(iter(ids[start:end][::-1]), "")}


def input_items(record: bytes, agent: Runnable[Any], response_id: ResponseId) -> list[Json]:
    """Return what a response was given for: the conversation before it, then the decisions at its beginning.

    Args:
        record: The record of the run.
        agent: The agent of the run.
        response_id: The response.
    """
    entries = LocalJournal.load(record).entries
    request, steps = recorded_steps(entries[: response_id.after] or entries, escaped(agent.name))
    messages = [*(request or ())]
    if response_id.after:
        messages += [message for step in steps for message in step.messages()]
    items = list(items_of_messages(messages, response_id.run_id, [agent]))
    if response_id.after:
        calls = {
            (f"{escaped(agent.name)}/step-{step.number}", number): call
            for step in steps
            for number, call in enumerate(step.calls, 1)
        }
        items += _decision_items(entries[response_id.after :], calls)
    return items


def items_of_messages(messages: Sequence[Message], place: str, agents: Iterable[Runnable[Any]]) -> Iterator[Json]:
    """Yield the items of a conversation.

    Args:
        messages: The messages.
        place: What tells the ids of the items from those of another conversation.
        agents: The agents whose tools run on the server; other calls are those of a client.
    """
    boxes = [(agent.name, box) for agent in agents if (box := fact(agent, TOOLS)) is not None]
    owners = {tool: name for name, box in reversed(boxes) for tool in box.entries}
    for number, (message, results) in enumerate(_with_results(messages)):
        yield from _message_items(message, results, owners, f"in_{place}_{number}")


def _with_results(messages: Sequence[Message]) -> list[tuple[Message, dict[str, ToolResult]]]:
    """Return messages, each with the results of its calls by their ids."""
    pairs: list[tuple[Message, dict[str, ToolResult]]] = []
    results: dict[str, ToolResult] = {}
    for message in reversed(messages):
        pairs.append((message, results))
        if message.role == "tool":
            results.update({result.id: result for result in message.tool_results})
        else:
            results = {}
    return pairs[::-1]


def _message_items(
    message: Message, results: Mapping[str, ToolResult], owners: Mapping[str, str], place: str
) -> Iterator[Json]:
    for number, part in enumerate(message.parts):
        end = f"{place}_{number}"
        owner = owners.get(part.name) if isinstance(part, (ToolCall, ToolResult)) else None
        if owner is not None:
            if isinstance(part, ToolCall):  # its item has the result as well
                yield item_of(ServerCall("", part.name, part.arguments, owner, None, results.get(part.id)), end)
        elif isinstance(part, ToolResult):
            yield _output_item(part.id, part.text, end)
        elif message.role == "assistant" and isinstance(part, (Text, Thinking, ToolCall)):
            yield item_of(part, end)
        elif (content := _content(part)) is not None:
            fixed = {"id": f"msg_{end}", "type": "message", "status": "completed"}
            yield fixed | {"role": message.role, "content": [content]}


def _output_item(call_id: str, text: str, end: str) -> Json:
    fixed = {"id": f"fco_{end}", "type": "function_call_output", "status": "completed"}
    return fixed | {"call_id": call_id, "output": text}


def _decision_items(entries: Sequence[JournalEntry], calls: dict[tuple[str, int], ToolCall]) -> Iterator[Json]:
    """Yield the items that a client has sent to go on with a run, from the entries with which it went on."""
    for entry in takewhile(lambda entry: isinstance(entry, (Opened, Decided)), entries):
        if not isinstance(entry, Decided):
            continue
        decision, call = decision_of(entry.decision), calls.get(tool_place(parent_of(entry.path)) or ("", 0))
        if isinstance(decision, (Approve, Deny)):
            reason = decision.reason if isinstance(decision, Deny) else None
            fixed = {"id": f"mcpr_{entry.id}", "type": "mcp_approval_response", "approval_request_id": entry.id}
            yield fixed | {"approve": isinstance(decision, Approve), "reason": reason}
        elif isinstance(decision, Answer) and call is not None:
            yield _output_item(call.id, str(decision.value), entry.id)


def _content(part: object) -> Json | None:
    if isinstance(part, Text):
        return {"type": "input_text", "text": part.text}
    if isinstance(part, Image):
        data = b64encode(part.data or b"").decode()
        url = part.url or f"data:{part.media_type};base64,{data}"
        return {"type": "input_image", "image_url": url, "detail": part.detail or "auto"}
    return None
