"""Facts about a tool, readable through any layers around it."""

__all__ = ["CHECK", "FINAL_ANSWER", "GRAPH_ADDED", "GRAPH_ORIGIN", "SPEC"]

from collections.abc import Callable

from ziggurat.core.facts import Fact
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall

SPEC: Fact[ToolSpec | None] = Fact("spec", None)
"""The tool's name, schema and declarations."""

CHECK: Fact[Callable[[ToolCall], None] | None] = Fact("check", None)
"""Checks a call's arguments against the tool's schema; raises InvalidArguments."""

FINAL_ANSWER = "final_answer"
"""The name of what a model calls to answer with a value of a given type; it is not a tool of the user's."""

GRAPH_ORIGIN = "knowledge graph"
"""The origin of what a knowledge graph answers a model; after a colon the tools that its answer came from first."""

GRAPH_ADDED = "knowledge graph addition"
"""The origin of the word that something was added to a knowledge graph."""
