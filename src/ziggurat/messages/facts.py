"""Facts about a model, readable through any layers around it."""

__all__ = ["MODEL_NAME", "OUTPUT_MODES", "WINDOW", "OutputMode"]

from typing import Literal

from ziggurat.core.facts import Fact

OutputMode = Literal["native", "tool", "prompted"]

MODEL_NAME: Fact[str] = Fact("model name", "")
"""The model as its provider calls it."""

WINDOW: Fact[int | None] = Fact("window", None)
"""How many tokens the model can read and write in one call."""

OUTPUT_MODES: Fact[tuple[OutputMode, ...]] = Fact("output modes", ("tool", "prompted"))
"""How the model can be held to a schema, best first: by itself, through a tool call, or by being told to."""
