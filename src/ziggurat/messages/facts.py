"""Facts of model services, readable through any layers around them."""

from typing import Literal

from ziggurat.core.facts import Fact

OutputMode = Literal["native", "tool", "prompted"]

MODEL_NAME: Fact[str] = Fact("model name", "")
"""The provider's name of the model."""

WINDOW: Fact[int | None] = Fact("window", None)
"""The context window of the model in tokens, for input and output together."""

OUTPUT_MODES: Fact[tuple[OutputMode, ...]] = Fact("output modes", ("tool", "prompted"))
"""The ways to make the model follow a schema, best first: native support, a tool call, or an instruction."""
