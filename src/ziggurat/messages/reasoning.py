"""Whether what a model thought stands where its provider wants it back."""

__all__ = ["lost_reasoning", "reasoning"]

from collections.abc import Iterator, Sequence

from ziggurat.messages.message import Message
from ziggurat.messages.parts import Part, Thinking
from ziggurat.messages.violations import Violation


def reasoning(messages: Sequence[Message]) -> Iterator[Violation]:
    """Find thoughts that nothing follows and thoughts that stand twice.

    Only thoughts that bear a proof count; what a model thought in plain text, no provider asks for.
    """
    seen: dict[Thinking, int] = {}
    for index, message in enumerate(messages):
        if message.role != "assistant":
            continue
        here: set[Thinking] = set()
        for part in message.parts:
            if not isinstance(part, Thinking) or not _proven(part):
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
        if isinstance(last, Thinking) and _proven(last):
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


def _proven(thought: Thinking) -> bool:
    return bool(thought.signature or thought.redacted or thought.id)


def _said(message: Message) -> tuple[Part, ...]:
    return tuple([part for part in message.parts if not isinstance(part, Thinking)])
