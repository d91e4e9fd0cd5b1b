"""Checks that a model's reasoning blocks are where its provider wants them back."""

__all__ = ["is_proven", "lost_reasoning", "reasoning"]

import re
from collections.abc import Iterator, Sequence

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Part, Thinking
from ziggurat.messages.violations import Violation

_ITEM = re.compile(r"[A-Za-z]+_[A-Za-z0-9_-]+(#[a-z0-9-]+)?")
"""The id of a thought as providers give them, such as rs_1; other ids are marks of what was kept beside a thought."""


def reasoning(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find thoughts that nothing follows and thoughts that stand twice.

    Only thoughts that bear a proof count; what a model thought in plain text, no provider asks for, and what a wire
    has kept beside the parts of a reply may stand anywhere.
    """
    seen: dict[Thinking, int] = {}
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        here: set[Thinking] = set()
        for part in message.parts:
            if not isinstance(part, Thinking) or not is_proven(part):
                continue
            if part in here or (part.id and part in seen):
                yield Violation(
                    "DuplicateReasoning",
                    f"message {index} holds a thought a second time; keep one",
                    (index, seen[part]),
                )
            here.add(part)
            seen.setdefault(part, index)
        last = message.parts[-1] if message.parts else None
        if isinstance(last, Thinking) and is_proven(last):
            yield Violation(
                "DanglingReasoning",
                f"message {index} ends with a thought; put what came of it after it, or leave it out",
                (index,),
            )


def lost_reasoning(original: Sequence[Message], rewritten: Sequence[Message]) -> Iterator[Violation]:
    """Find messages of the model's that were kept without a thought, or with their thoughts elsewhere."""
    kept: dict[tuple[Part, ...], list[tuple[Part, ...]]] = {}
    for message in original:
        if message.role == "assistant":
            kept.setdefault(_said(message), []).append(message.parts)
    for index, message in enumerate(rewritten):
        before = kept.get(_said(message)) if message.role == "assistant" else None
        if not before or message.parts in before:
            continue
        thoughts = [part for part in message.parts if isinstance(part, Thinking)]
        closest = max(before, key=lambda parts: sum(part in thoughts for part in parts))
        lost = [part for part in closest if isinstance(part, Thinking) and part not in thoughts]
        if lost:
            yield Violation(
                "MissingReasoning",
                f"message {index} has lost {len(lost)} of the thoughts before it; keep the message as it was",
                (index,),
            )
        elif len(thoughts) == sum(isinstance(part, Thinking) for part in closest):
            yield Violation(
                "ReasoningOutOfOrder", f"in message {index} a thought stands in another place than it did", (index,)
            )


def is_proven(thought: Thinking) -> bool:
    """Return whether a thought bears a provider's proof, so that it must stand where it stood."""
    if thought.id:
        return _ITEM.fullmatch(thought.id) is not None
    return bool(thought.signature or thought.redacted)


def _said(message: Message) -> tuple[Part, ...]:
    return tuple([part for part in message.parts if not isinstance(part, Thinking)])
