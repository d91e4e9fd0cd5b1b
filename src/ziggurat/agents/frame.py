"""Which agent is running, how deep, and what it and all beneath it have cost."""

__all__ = ["FRAME", "Frame"]

from ziggurat.core.scope import Key
from ziggurat.messages.usage import Tally


class Frame:
    """One entry into an agent."""

    __slots__ = ("agent", "began", "depth", "tally")

    def __init__(self, agent: str, depth: int, tally: Tally) -> None:
        self.agent = agent
        self.depth = depth
        self.tally = tally
        self.began = 0.0  # seconds of the run's allowance used up when it was first entered


FRAME: Key[Frame] = Key("frame")
