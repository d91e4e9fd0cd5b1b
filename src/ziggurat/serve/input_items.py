"""What a response was given for: the conversation before it as items, in pages."""

__all__ = ["input_page"]

from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

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
from ziggurat.tools.toolbox import Toolbox
from ziggurat.wires.response_items import item_of
from ziggurat.wires.server_items import ServerCall
from ziggurat.wires.types import Json

_MOST = 100
"""Items of the longest page."""


def input_page(
    record: bytes, agent: Runnable[Any], response_id: ResponseId, limit: int, order: str, after: str | None
) -> Json:
    """Return a page of what a response was given for: the conversation up to it, and what it was decided with.

    Args:
        record: The record of the run.
        agent: The agent of the run.
        response_id: The response.
        limit: How many items the page has at most.
        order: ``"asc"`` or ``"desc"``.
        after: The id of the item before the page.

    Raises:
        ConfigurationError: the limit or the order is no such value.
        RunNotFound: there is no such item.
    """
    if not 1 <= limit <= _MOST:
        raise ConfigurationError(f"limit is a number from 1 to {_MOST}, got {limit}")
    if order not in ("asc", "desc"):
        raise ConfigurationError(f"order is asc or desc, got {order!r:.50}")
    items = list(_items(LocalJournal.load(record).entries, agent, response_id))
    if order == "desc":
        items.reverse()
    ids = [item["id"] for item in items]
    if after is not None and after not in ids:
        raise RunNotFound(f"after: the response has no input item {after!r:.150}")
    start = 0 if after is None else ids.index(after) + 1
    page = items[start : start + limit]
    ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": "", "last_id": ""}
    return {"object": "list", "data": page, "has_more": start + limit < len(items)} | ends


def _items(entries: Sequence[JournalEntry], agent: Runnable[Any], response_id: ResponseId) -> Iterator[Json]:
    """Yield the items of the conversation before a response, then those of the decisions at its beginning."""
    request, steps = recorded_steps(entries[: response_id.after] or entries, escaped(agent.name))
    messages = [*(request or ())]
    if response_id.after:
        messages += [message for step in steps for message in step.messages()]
    own = fact(agent, TOOLS)
    for number, (message, results) in enumerate(_with_results(messages)):
        yield from _message_items(message, results, own, f"in_{response_id.run_id}_{number}", agent.name)
    if response_id.after:
        calls = {
            (f"{escaped(agent.name)}/step-{step.number}", number): call
            for step in steps
            for number, call in enumerate(step.calls, 1)
        }
        yield from _decision_items(entries[response_id.after :], calls)


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
    message: Message, results: dict[str, ToolResult], own: Toolbox | None, place: str, agent: str
) -> Iterator[Json]:
    for number, part in enumerate(message.parts):
        end = f"{place}_{number}"
        if isinstance(part, (ToolCall, ToolResult)) and own is not None and own.find(part.name) is not None:
            if isinstance(part, ToolCall):  # its item has the result as well
                yield item_of(ServerCall("", part.name, part.arguments, agent, None, results.get(part.id)), end)
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
