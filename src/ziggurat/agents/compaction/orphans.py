"""Repair tool calls without a result, which conversations from elsewhere may contain."""

from typing import Literal

from ziggurat.agents.compaction.selector import units
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.message import Message, tool_message
from ziggurat.messages.parts import ToolResult

Orphans = Literal["answer", "drop", "keep", "refuse"]
"""Answer each call with a note, drop its message with all results, keep everything, or refuse to compact."""


def repair_orphans(messages: list[Message], orphans: Orphans) -> list[Message]:
    """Return a conversation with its unanswered calls repaired; the same list if there are none."""
    blocks = [(messages[start:end], _unanswered_ids(messages[start:end])) for start, end in units(messages)]
    lost = sum(bool(ids) for _, ids in blocks)
    if not lost or orphans == "keep":
        return messages
    if orphans == "refuse":
        raise ConfigurationError(
            f"cannot compact: {lost} message(s) of the conversation hold calls without a result; "
            "answer them, or give orphans='answer' or 'drop'"
        )
    conversation: list[Message] = []
    for block, ids in blocks:
        if not ids:
            conversation += block
        elif orphans == "answer":
            conversation += _answer_calls(block)
    return conversation


def _unanswered_ids(block: list[Message]) -> set[str]:
    known = {result.id for message in block[1:] for result in message.tool_results}
    return {call.id for call in block[0].tool_calls} - known


def _answer_calls(block: list[Message]) -> list[Message]:
    """Return a unit with each call answered once, in order, followed by any messages that stood between."""
    results = {result.id: result for message in reversed(block[1:]) for result in message.tool_results}
    text = "no result of this call is known"
    answers = [
        results.get(call.id) or ToolResult(call.id, call.name, text, "interrupted", call.name)
        for call in block[0].tool_calls
    ]
    between = [message for message in block[1:] if message.role != "tool"]
    return [block[0], *map(tool_message, answers), *between]
