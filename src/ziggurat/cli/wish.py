"""What was asked for on the command line, as it is kept with a run."""

__all__ = ["MODEL", "Wish"]

from msgspec import Struct

MODEL = "ZIGGURAT_MODEL"
"""The environment variable that names the model where no option does."""


class Wish(Struct, frozen=True):
    """What was asked for on the command line; None and empty where nothing was said."""

    model: str | None = None
    tools: tuple[str, ...] = ()
    agent: str | None = None
    instructions: str | None = None
    max_steps: int | None = None
    timeout: float | None = None
    approve: tuple[str, ...] = ()
    folder: str | None = None
    memory: str | None = None
