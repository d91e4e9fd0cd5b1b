"""Checks that a model's reasoning blocks are where its provider requires them."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Part, Thinking
from ziggurat.messages.violations import Violation

_ITEM = re.compile(r"[A-Za-z]+_[A-Za-z0-9_-]+(#[a-z0-9-]+)?")
"""The form of a provider's id of a thought, such as rs_1; a block with any other id is not checked."""

_COMPARED = 100  # messages with the same words that a message is compared with to find the thoughts it has lost


def reasoning(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find thoughts at the end of a message, and repeated thoughts."""
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
                f"message {index} ends with a thought; put the answer after it, or leave it out",
                (index,),
            )


def lost_reasoning(original: Sequence[Message], rewritten: Sequence[Message]) -> Iterator[Violation]:
    """Find messages of the model that were kept without one of their thoughts, or with thoughts in another place."""
    remaining: dict[tuple[Part, ...], dict[tuple[Part, ...], None]] = {}
    for message in original:
        if message.role == "assistant":
            remaining.setdefault(_without_thoughts(message), {})[message.parts] = None
    for index, message in enumerate(rewritten):
        before = remaining.get(_without_thoughts(message)) if message.role == "assistant" else None
        if not before or message.parts in before:
            continue
        thoughts = {part: None for part in message.parts if isinstance(part, Thinking)}
        compared = islice(before, _COMPARED)
        closest = max(compared, key=lambda parts: sum(part in thoughts for part in parts))
        lost = [part for part in closest if isinstance(part, Thinking) and part not in thoughts]
        if lost:
            yield Violation(
                "MissingReasoning",
                f"message {index} has lost {len(lost)} of the thoughts before it; keep the message as it was",
                (index,),
            )
        elif len(message.parts) == len(closest):
            yield Violation(
                "ReasoningOutOfOrder", f"in message {index} a thought stands in another place than it did", (index,)
            )


def is_proven(thought: Thinking) -> bool:
    """Return whether a thought has a provider's proof, so that it must stay in its place."""
    if thought.id:
        return _ITEM.fullmatch(thought.id) is not None
    return bool(thought.signature or thought.redacted)


def _without_thoughts(message: Message) -> tuple[Part, ...]:
    return tuple([part for part in message.parts if not isinstance(part, Thinking)])
