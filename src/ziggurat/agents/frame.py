"""Which agent is running, how deep, and what it and all beneath it have cost."""

__all__ = ["FRAME", "Frame"]

from ziggurat.core.scope import Key
from ziggurat.messages.usage import Tally


class Frame:
    """One entry into an agent."""

    __slots__ = ("agent", "depth", "tally")

    def __init__(self, agent: str, depth: int, tally: Tally) -> None:
        self.agent = agent
        self.depth = depth
        self.tally = tally


FRAME: Key[Frame] = Key("frame")
