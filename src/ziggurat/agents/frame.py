"""Which agent is running, how deep, and what it and all below it have cost."""

__all__ = ["FRAME", "Frame"]

import asyncio
from collections.abc import Sequence

from ziggurat.core.scope import Key
from ziggurat.messages.conversation import Conversation
from ziggurat.messages.message import Message
from ziggurat.messages.usage import Tally


class Frame(Tally):
    """One entry into an agent; it counts what the agent and all below it cost, and knows what was said."""

    __slots__ = ("agent", "began", "conversation", "depth", "loop")

    outer: "Frame | None"

    def __init__(self, agent: str, outer: "Frame | None") -> None:
        super().__init__(outer)
        self.agent = agent
        self.conversation: Conversation | None = None  # until its loop begins, and where it has none
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.loop = asyncio.get_running_loop()  # where all of the run goes on, whichever thread asks for it
        self.began = 0.0  # seconds of the run's allowance used up when it was first entered

    def said(self) -> Sequence[Message]:
        """Return the conversation of the agent as it stands."""
        return () if self.conversation is None else self.conversation.log


FRAME: Key[Frame] = Key("frame")
