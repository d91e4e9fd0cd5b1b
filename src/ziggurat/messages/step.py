"""The steps of a run, as seen afterwards."""

from collections.abc import Iterable

from msgspec import Struct

from ziggurat.messages.message import Message
from ziggurat.messages.parts import ToolCall, ToolResult


class AgentStep(Struct, frozen=True):
    """One step of an agent's loop, as seen afterwards: thought, tool calls and results.

    Attributes:
        index: Its number, from 1.
        thought: The model's reasoning, or else its text beside the calls.
        calls: The tool calls.
        results: Their results, in the order of the calls.
        answer: What the model said, if it called no tool.
        agent: In a run of a team, the name of the member that spoke.
    """

    index: int
    thought: str
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult, ...]
    answer: str = ""
    agent: str = ""

    @property
    def action(self) -> str:
        """The calls as text, ``name {arguments}``."""
        return "; ".join(f"{call.name} {call.arguments}" for call in self.calls)

    @property
    def observation(self) -> str:
        """The results as text."""
        return "; ".join(result.text for result in self.results)


def steps_of(messages: Iterable[Message]) -> tuple[AgentStep, ...]:
    """Return the steps in a conversation: each message of the model, with the results of its tool calls."""
    replies: list[tuple[Message, list[ToolResult]]] = []
    for message in messages:
        if message.role == "assistant":
            replies.append((message, []))
        elif message.role == "tool" and replies:
            replies[-1][1].extend(message.tool_results)
    return tuple(_step(index, reply, results) for index, (reply, results) in enumerate(replies, 1))


def _step(index: int, reply: Message, results: Iterable[ToolResult]) -> AgentStep:
    beside, answer = (reply.text, "") if reply.tool_calls else ("", reply.text)
    return AgentStep(index, reply.thinking or beside, reply.tool_calls, tuple(results), answer, reply.name or "")
