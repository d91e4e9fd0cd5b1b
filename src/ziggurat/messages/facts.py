"""Facts of model and tool services, readable through any layers around them, and reserved names."""

from collections.abc import Callable
from typing import Any, Literal

from ziggurat.core.service import Fact
from ziggurat.messages.model import ToolSpec
from ziggurat.messages.parts import ToolCall

OutputMode = Literal["native", "tool", "prompted"]

MODEL_NAME: Fact[str] = Fact("model name", "")
"""The provider's name of the model."""

WINDOW: Fact[int | None] = Fact("window", None)
"""The context window of the model in tokens, for input and output together."""

OUTPUT_MODES: Fact[tuple[OutputMode, ...]] = Fact("output modes", ("tool", "prompted"))
"""The ways to make the model follow a schema, best first: native support, a tool call, or an instruction."""


SPEC: Fact[ToolSpec | None] = Fact("spec", None)
"""The tool's name, schema and declarations."""

AS_TOOL: Fact[Callable[[Any], Any] | None] = Fact("as tool", None)
"""Makes a tool of a service that is none, such as an agent, with the layers around it."""

NORMALIZE: Fact[Callable[[ToolCall], ToolCall] | None] = Fact("normalize", None)
"""Returns a call with the arguments that the tool will receive: checked, converted, defaults filled in, as canonical
JSON. A normalized call is returned unchanged. Raises InvalidArguments."""

FINAL_ANSWER = "final_answer"
"""The name of the tool that a model calls to give a typed final answer; not a tool of the user."""

GRAPH_ORIGIN = "knowledge graph"
"""The origin of a knowledge graph's answers; after a colon, the tools that the facts in it originally came from."""

GRAPH_ADDED = "knowledge graph addition"
"""The origin of a result that confirms an addition to a knowledge graph."""
