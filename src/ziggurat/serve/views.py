"""What the server shows of a run: its nodes with times of the day, and one call in full."""

from collections.abc import Iterable, Sequence
from typing import Any

from ziggurat.core import errors
from ziggurat.core.codec import Raw, as_error, as_type, decode, plain
from ziggurat.core.path import escaped, is_model_call, is_tool_call, parent_of, step_of
from ziggurat.journal import entries as journal
from ziggurat.messages.formatting import call_text
from ziggurat.messages.message import Message, Part, Text, ToolCall, ToolResult
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.recorded import recorded_steps, said_before
from ziggurat.messages.usage import total_of
from ziggurat.observe.tree import RunNode, run_tree
from ziggurat.runs.fork import calls_of
from ziggurat.serve.requests import value_of

View = dict[str, Any]


def tree_view(entries: Sequence[journal.JournalEntry], start: int, count: int) -> View:
    tree = run_tree(entries)
    began = _began(entries)
    nodes = [_node_view(node, began) for node in tree.nodes[start : start + count]]
    return {"status": tree.status, "total": len(tree.nodes), "last": str(len(entries)), "nodes": nodes}


def _node_view(node: RunNode, began: float) -> View:
    return {
        "path": node.path,
        "parent": parent_of(node.path) or None,
        "depth": node.depth,
        "kind": node.kind,
        "name": node.name,
        "status": node.state,
        "started": None if node.began is None else began + node.began,
        "ended": None if node.ended is None else began + node.ended,
        "usage": node.usage,
        "text": node.text,
        "number": _number(node),
    }


def _number(node: RunNode) -> int | str:
    """Return what identifies a node in an address: the number of its first entry, or its path if it has none."""
    return node.number or node.path.replace("/", "~")


def _began(entries: Iterable[journal.JournalEntry]) -> float:
    return next((entry.at for entry in entries if isinstance(entry, journal.Opened)), 0.0)


def call_view(entries: Sequence[journal.JournalEntry], number: str) -> View:
    at = int(number) - 1 if number.isascii() and number.isdigit() else -1
    path = entries[at].path if 0 <= at < len(entries) else number.replace("~", "/")
    node = next((node for node in run_tree(entries).nodes if path and node.path == path), None)
    if node is None:
        raise errors.RunNotFound(f"the run has no call with the number {number}")
    view = _node_view(node, _began(entries)) | {"messages": _prompt(entries, path)}
    if is_tool_call(path) and (call := _call(entries, path)) is not None:
        view["arguments"] = value_of(call.arguments)
    for entry in (each for each in entries if each.path == path):
        if isinstance(entry, (journal.Entered, journal.Pending)):
            view["arguments"] = _data(entry.request)
        elif isinstance(entry, journal.Decided):
            view["decision"] = _data(entry.decision)
        elif isinstance(entry, journal.Failure):
            view["error"] = errors.described(as_error(entry.error))
        elif isinstance(entry, journal.Result):
            view |= _result_view(entry)
    return view


def _result_view(entry: journal.Result) -> View:
    if is_model_call(entry.path):
        response = as_type(entry.value, ModelResponse)
        return {
            "reply": message_view(response.message)["content"],
            "cost": total_of({entry.name or response.model: response.usage}),
        }
    if is_tool_call(entry.path):
        result = as_type(entry.value, ToolResult)
        content = result.content if isinstance(result.content, str) else [_part_view(part) for part in result.content]
        return {"error" if result.error is not None else "result": content}
    return {"result": _data(entry.value)}


def _call(entries: Sequence[journal.JournalEntry], path: str) -> ToolCall | None:
    agent, step, place = step_of(path)
    calls = [call for each in recorded_steps(entries, agent)[1] if each.number == step for call in each.calls]
    index = place.removeprefix("tool-").partition(":")[0]
    return calls[int(index) - 1] if index.isdigit() and 0 < int(index) <= len(calls) else None


def _prompt(entries: Sequence[journal.JournalEntry], path: str) -> list[View]:
    agent, messages = step_of(path)[0], said_before(entries, path) or ()
    setups = [_data(entry.setup) for entry in entries if isinstance(entry, journal.Entered) and entry.path == agent]
    texts = [setup.get("instructions") for setup in setups if isinstance(setup, dict)][-1:]
    return [{"role": "instructions", "content": text} for text in texts if text] + [
        message_view(each) for each in messages
    ]


def message_view(message: Message) -> View:
    """Return a message with its text, or its parts if there is more: as recorded, calls and results with a text."""
    if all(isinstance(part, Text) for part in message.parts):
        return {"role": message.role, "content": message.text}
    return {"role": message.role, "content": [_part_view(part) for part in message.parts]}


def _part_view(part: Part) -> View:
    view: View = plain(part)
    if isinstance(part, ToolCall):
        view["text"] = call_text(part, len(part.arguments) + len(part.name) + 2)
    elif isinstance(part, ToolResult) and isinstance(part.content, str):
        view["text"] = part.content
    return view


def _data(value: object) -> Any:
    return decode(value, Any) if isinstance(value, Raw) else plain(value)


def fork_place(entries: Sequence[journal.JournalEntry], number: int, agent: str) -> int:
    """Return where a run is forked: the step, or the call of a flow, to which the entry of a number belongs."""
    path, root = entries[number - 1].path if 0 < number <= len(entries) else "", escaped(agent)
    if step := step_of(path, root)[1]:
        return step
    calls, name = calls_of(entries, root), path[len(root) + 1 :].partition("/")[0]
    if name not in calls:
        raise errors.ConfigurationError("a run is forked at one of its own steps; choose a call in a step")
    return calls[name]


def changed_nodes(one: Sequence[journal.JournalEntry], other: Sequence[journal.JournalEntry]) -> list[View]:
    trees = [{node.path.partition("/")[2]: node for node in run_tree(entries).nodes} for entries in (one, other)]
    rows: list[View] = []
    for path in dict.fromkeys([*trees[0], *trees[1]]):
        left, right = trees[0].get(path), trees[1].get(path)
        node = left or right
        assert node is not None
        same = left is not None and right is not None and (left.text, left.state) == (right.text, right.state)
        kind = "same" if same else "only_a" if right is None else "only_b" if left is None else "changed"
        texts = [None if each is None else each.text or each.state for each in (left, right)]
        rows.append({"kind": kind, "path": path, "name": node.name, "a": texts[0], "b": texts[1]})
    return rows
