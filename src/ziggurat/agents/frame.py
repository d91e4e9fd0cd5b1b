"""Which agent is running, how deep, and what it and all beneath it have cost."""

__all__ = ["FRAME", "Frame"]

from ziggurat.core.scope import Key
from ziggurat.messages.usage import Tally


class Frame(Tally):
    """One entry into an agent; it counts what the agent and all beneath it cost."""

    __slots__ = ("agent", "began", "depth")

    def __init__(self, agent: str, outer: "Frame | None") -> None:
        super().__init__(outer)
        self.agent = agent
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.began = 0.0  # seconds of the run's allowance used up when it was first entered


FRAME: Key[Frame] = Key("frame")
