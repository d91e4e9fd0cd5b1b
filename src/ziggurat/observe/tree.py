"""The tree of a run: every recorded call as a node, with its state, times, usage and a line of text.

It is made of the record alone, so it is the same while the run goes on and afterwards, in this process and elsewhere.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Literal

from msgspec import Struct
from msgspec.structs import astuple

from ziggurat.core.codec import Raw, as_error, as_type, decode, encode
from ziggurat.core.errors import JournalCorrupt, described
from ziggurat.core.path import is_model_call, is_tool_call, name_at, parent_of
from ziggurat.journal import entries as journal
from ziggurat.messages import agent as runs, diagram
from ziggurat.messages.formatting import call_text, result_text, shortened, stop_text
from ziggurat.messages.items import HandoffItem
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.usage import Usage

_ENDED_WELL = frozenset({"Completed", "Suspended"})  # how a run stops that has not failed


NodeKind = Literal["agent", "step", "model", "tool", "call", "question", "timer", "event"]
"""What a node is: ``step`` is a turn of an agent or a round of a team, ``call`` a step of a flow or a part of it."""


class RunNode(Struct, frozen=True):
    """A call in a run, or what several calls are parts of.

    Attributes:
        path: Its address in the run.
        name: What was called: the name of an agent, tool, model or step.
        kind: What it is.
        depth: How many nodes are above it.
        state: How far it has come; ``"skipped"`` if the run ended before it.
        text: What came of it, or what it waits for, as one line.
        began: When it began, in seconds of the run's own time, in which waits for people do not count; None if that is
            not on record.
        ended: When it ended, in the same seconds; None if it has not.
        usage: What its model call has used, if it is one.
        number: The number of its first entry in the record, from 1; 0 if it has none itself.
        speaker: The agent that has answered in it, if that is another one, as in a team; else empty.
    """

    path: str
    name: str
    kind: NodeKind
    depth: int
    state: diagram.Mark
    text: str = ""
    began: float | None = None
    ended: float | None = None
    usage: Usage | None = None
    number: int = 0
    speaker: str = ""


class RunTree(Struct, frozen=True):
    """The nodes of a run, each after the one that it is a part of, in the order in which they began.

    Attributes:
        run_id: The id of the run.
        status: ``"running"``, or how the run ended or why it waits.
        nodes: All nodes.
    """

    run_id: str
    status: str
    nodes: tuple[RunNode, ...]

    def text(self) -> str:
        """Return the tree as lines of text, each with the state of its node."""
        return "".join(f"{'  ' * node.depth}{_SIGNS[node.state]} {_label(node)}\n" for node in self.nodes)

    def mermaid(self) -> str:
        """Return the tree as a Mermaid flowchart, in which the states are colours."""
        return _tree_diagram(self.nodes).mermaid()


class _Node(Struct, eq=False):
    """A node that is being made: the fields of a `RunNode` in their order, and its parts."""

    path: str
    name: str
    kind: NodeKind
    depth: int
    state: diagram.Mark | None = None  # follows from its parts, if it has no entry of its own
    text: str = ""
    began: float | None = None
    ended: float | None = None
    usage: Usage | None = None
    number: int = 0
    speaker: str = ""
    parts: list["_Node"] = []


def _kind_of(path: str) -> NodeKind:
    if is_tool_call(path):
        return "tool"
    if is_model_call(path):
        return "model"
    stage = runs.stage_of(path)
    if stage in ("question", "timer", "event"):
        return stage
    name = name_at(path)
    return "step" if name.partition("-")[0] in ("step", "round", "turn") and "-" in name else "call"


def run_tree(entries: Iterable[journal.JournalEntry]) -> RunTree:
    """Return the tree of a run from its record, in time that grows with the length of the record.

    ::

        tree = await agent.tree("r-17")
        print(tree.text())

    Raises:
        JournalCorrupt: something recorded cannot be read.
    """
    builder = _Builder()
    for number, entry in enumerate(entries, 1):
        builder.add(entry, number)
    return builder.tree()


class _Builder:
    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._roots: list[_Node] = []
        self._calls: dict[str, ToolCall] = {}
        self._latest: dict[str, float] = {}  # when the last part of a node ended
        self._run_id, self._status = "", "running"

    def add(self, entry: journal.JournalEntry, number: int) -> None:
        if isinstance(entry, journal.Opened):
            self._run_id, self._status = self._run_id or entry.run_id, "running"
        elif isinstance(entry, journal.Ended):
            self._status = entry.stop
        if not entry.path:
            return
        node = self._node(entry.path)
        node.number = node.number or number
        match entry:
            case journal.Entered():
                node.kind = "tool" if node.kind == "tool" else "agent"
                node.name, node.state, node.ended = entry.name, "running", None
                node.began = entry.elapsed if node.began is None else node.began
                self._latest[entry.path] = entry.elapsed
            case journal.Intent():
                node.state = "running"
                if node.kind == "tool":  # as it runs; a person or a middleware may have changed what was asked for
                    self._calls[entry.path.rpartition(":")[0]] = as_type(entry.request, ToolCall)
            case journal.Decided():
                self._add_decision(node, runs.decision_of(entry.decision))
            case journal.Pending():
                node.state = "waiting"
                node.text = _waiting_text(entry)
                self._begins(node)
            case journal.Result():
                self._add_result(node, entry)
            case journal.Failure():
                node.state, node.text = "failed", shortened(described(as_error(entry.error)))
                self._ends(node, entry.elapsed)
            case _:
                pass

    def _node(self, path: str) -> _Node:
        known = self._nodes.get(path)
        missing: list[str] = []
        while known is None and path:
            missing.append(path)
            path = parent_of(path)
            known = self._nodes.get(path)
        for each in reversed(missing):
            name = each.rpartition("/")[2]
            name = name.partition(":")[2] if is_tool_call(each) else name
            node = self._nodes[each] = _Node(each, name, _kind_of(each), 0 if known is None else known.depth + 1)
            (self._roots if known is None else known.parts).append(node)
            known = node
        assert known is not None
        return known

    def _add_result(self, node: _Node, entry: journal.Result) -> None:
        value = entry.value
        if node.kind == "model":
            response = as_type(value, ModelResponse)
            node.state, node.name, node.usage = "done", entry.name or node.name, response.usage
            node.text = shortened("; ".join(filter(None, (response.text, *map(call_text, response.tool_calls)))))
            step = parent_of(node.path)
            for place, call in enumerate(response.message.tool_calls, 1):
                self._calls[f"{step}/tool-{place}"] = call
        elif node.kind == "tool":
            result = as_type(value, ToolResult)
            called = self._calls.get(node.path.rpartition(":")[0])
            node.state = "done" if result.error is None else "failed"
            node.text = f"{'' if called is None else call_text(called, 60) + ' → '}{result_text(result)}"
        else:
            node.state, node.text = _result_of(node, value)
        self._ends(node, entry.elapsed)

    def _add_decision(self, node: _Node, decision: runs.Decision) -> None:
        node.state = "running"
        if isinstance(decision, runs.Modify) and node.kind == "tool":
            self._calls[node.path.rpartition(":")[0]] = ToolCall("", node.name, decision.text)
        elif node.kind in ("question", "timer", "event"):  # they have no result besides
            node.state = "failed" if isinstance(decision, runs.Deny) else "done"
            answer = getattr(decision, "value", getattr(decision, "reason", None))
            node.text = "" if answer is None else shortened(encode(answer).decode("utf-8", "replace"))

    def _begins(self, node: _Node) -> None:
        """Note that a call began when what came before it in the same agent had ended."""
        if node.began is None:
            above = parent_of(node.path)
            node.began = self._latest.get(above, self._latest.get(parent_of(above)))

    def _ends(self, node: _Node, elapsed: float) -> None:
        self._begins(node)
        node.ended = elapsed or (None if node.parts else node.began)  # 0 if the next entry has the time
        if node.ended is not None:
            step = parent_of(node.path)
            if node.kind != "tool":  # the tools of a step begin together
                self._latest[step] = node.ended
            self._latest[parent_of(step)] = max(node.ended, self._latest.get(parent_of(step), 0.0))

    def tree(self) -> RunTree:
        ordered: list[_Node] = []
        waiting = self._roots[::-1]
        while waiting:
            ordered.append(waiting.pop())
            waiting += reversed(ordered[-1].parts)
        for node in reversed(ordered):  # parts before what they are parts of
            self._complete(node)
        return RunTree(self._run_id, self._status, tuple(RunNode(*astuple(node)[:-1]) for node in ordered))

    def _complete(self, node: _Node) -> None:
        """Take from its parts what a node does not know itself, and from the run what its root does not."""
        states = [part.state for part in node.parts]
        over = self._status != "running"
        if node.state in (None, "running") and "waiting" in states:
            node.state = "waiting"
        elif over and node is self._roots[0]:
            node.state = "done" if node.state == "done" or self._status in _ENDED_WELL else "failed"
        elif node.state is None and states and "running" not in states:
            node.state = states[-1]
        elif node.state in (None, "running"):
            node.state = "running" if not over else "waiting" if self._status == "Suspended" else "skipped"
        if node.began is None:
            node.began = min((part.began for part in node.parts if part.began is not None), default=None)
        if node.ended is None and node.state in ("done", "failed"):
            node.ended = max((part.ended for part in node.parts if part.ended is not None), default=None)


def _waiting_text(entry: journal.Pending) -> str:
    call = as_type(entry.request, ToolCall)
    return shortened(f"waits{f' ({entry.reason})' if entry.reason else ''}: {call_text(call)}")


def _result_of(node: _Node, value: object) -> tuple[diagram.Mark, str]:
    if isinstance(value, Raw):
        kind = HandoffItem if name_at(node.path) == "handoff" else runs.AgentRun
        if kind is HandoffItem or node.kind == "agent":
            with suppress(JournalCorrupt):  # the typed result of a flow is shown as it is
                value = decode(value, kind)
    if isinstance(value, HandoffItem):
        return "done", shortened(f"{value.from_agent} hands over to {value.to_agent}: {value.reason}".rstrip(": "))
    if isinstance(value, runs.AgentRun):
        node.speaker = "" if value.agent == node.path.rpartition("/")[2].partition("#")[0] else value.agent
        answer = shortened(value.text, 60)
        return "done" if value.is_reusable else "failed", f"{stop_text(value.stop)}{f': {answer}' if answer else ''}"
    return "done", shortened(encode(value).decode("utf-8", "replace"))


# -- drawing ---------------------------------------------------------------------------------------------------------

_SIGNS: dict[diagram.Mark, str] = {"waiting": "…", "running": "▸", "done": "✓", "failed": "✗", "skipped": "·"}
_SHAPES: dict[NodeKind, diagram.Shape] = {
    "tool": "round",
    "model": "stadium",
    "question": "hexagon",
    "timer": "hexagon",
}


def _tree_diagram(nodes: Sequence[RunNode]) -> diagram.Diagram:
    parts: list[list[diagram.DiagramNode]] = [[]]
    for node in reversed(nodes):  # parts before what they are parts of
        while len(parts) <= node.depth + 1:
            parts.append([])
        inner = _in_order(parts.pop()) if len(parts) > node.depth + 1 else diagram.Diagram()
        shape = _SHAPES.get(node.kind, "box")
        drawn = diagram.DiagramNode(
            node.path, shortened(_label(node), 60), shape, node.state, inner if inner.nodes else None
        )
        parts[node.depth].append(drawn)
    return _in_order(parts[0])


def _in_order(reverse: list[diagram.DiagramNode]) -> diagram.Diagram:
    """Return parts as a diagram, with an arrow from each to the next; those that are made together have none."""
    nodes = reverse[::-1]
    edges: list[diagram.DiagramEdge] = []
    for one, other in pairwise(nodes):
        if not (_place(one).isdigit() and _place(other).isdigit()):
            calls_tools = edges and _place(one).startswith("tool-") and _place(other).startswith("tool-")
            edges.append(diagram.DiagramEdge(edges[-1].source if calls_tools else one.name, other.name))
    return diagram.Diagram(tuple(nodes), tuple(edges))


def _place(node: diagram.DiagramNode) -> str:
    return node.name.rpartition("/")[2]


def _label(node: RunNode) -> str:
    return f"{shortened(node.name)}  {node.text}".rstrip()
