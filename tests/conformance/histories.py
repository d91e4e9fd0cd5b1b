"""Holds recorded requests of several messages, which a server took, against our model of conversations.

    python -m tests.conformance.histories

Three figures: of those that a server took, how many we take; how many still mean the same when we write them; and of
those with one call, result or thought dropped, doubled or moved, how many we refuse, and with the right code.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from tests.conformance.corpora import TRAFFIC, needed, recordings
from tests.conformance.requests import meaning, read, write
from ziggurat import Message, ToolCall
from ziggurat.messages import Thinking, ValidationPolicy, validate
from ziggurat.messages.message import Part, is_proven
from ziggurat.messages.validation import Violation, validate_rewrite

SENDABLE = ValidationPolicy.sendable()
NO_CALL = ("ToolBeforeAssistant", "UnknownToolResponse")
MISPLACED = (*NO_CALL, "ToolResponsesNotContiguous", "MissingToolResponses")


class Negative(NamedTuple):
    """A conversation made wrong, and the codes of which the first found must be one."""

    kind: str
    messages: list[Message]
    codes: tuple[str, ...]


class Scores(NamedTuple):
    """What came of all recorded conversations."""

    accepted: int
    taken: int
    surviving: int
    negatives: Counter[str]
    refused: Counter[str]
    refused_alone: Counter[str]
    remarks: list[str]


def negatives(messages: list[Message]) -> Iterator[Negative]:
    """Every conversation with one call, result or thought dropped, doubled or moved."""
    for index, message in enumerate(messages):
        for place, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                yield from _calls(messages, index, place)
            elif isinstance(part, Thinking) and is_proven(part):
                yield from _thoughts(messages, index, place)
        if message.role == "tool":
            yield from _results(messages, index)


def _calls(messages: list[Message], index: int, place: int) -> Iterator[Negative]:
    parts = messages[index].parts
    yield Negative("call dropped", _with(messages, index, parts[:place] + parts[place + 1 :]), NO_CALL)
    doubled = (*parts[:place], parts[place], *parts[place:])
    yield Negative("call doubled", _with(messages, index, doubled), ("DuplicateToolCallIdsInAssistant",))
    others = [at for at in range(place + 1, len(parts)) if isinstance(parts[at], ToolCall)]
    if others:
        swapped = _swapped(parts, place, others[0])
        yield Negative("call moved", _with(messages, index, swapped), ("ToolResponsesOutOfOrder",))
    elif len(messages[index].tool_calls) == 1:
        yield Negative("call moved", [*_swapped(messages, index, index + 1)], NO_CALL)


def _results(messages: list[Message], index: int) -> Iterator[Negative]:
    yield Negative("result dropped", messages[:index] + messages[index + 1 :], ("MissingToolResponses",))
    doubled = [*messages[:index], messages[index], *messages[index:]]
    yield Negative("result doubled", doubled, ("DuplicateToolResponse",))
    following = messages[index + 1] if index + 1 < len(messages) else None
    if following is not None and following.role == "tool":
        yield Negative("result moved", [*_swapped(messages, index, index + 1)], ("ToolResponsesOutOfOrder",))
    elif following is not None:
        yield Negative("result moved", [*_swapped(messages, index, index + 1)], MISPLACED)
    elif messages[index - 1].role == "assistant":
        yield Negative("result moved", [*_swapped(messages, index - 1, index)], NO_CALL)


def _thoughts(messages: list[Message], index: int, place: int) -> Iterator[Negative]:
    parts = messages[index].parts
    yield Negative("thought dropped", _with(messages, index, parts[:place] + parts[place + 1 :]), ("MissingReasoning",))
    doubled = (*parts[:place], parts[place], *parts[place:])
    yield Negative("thought doubled", _with(messages, index, doubled), ("DuplicateReasoning",))
    if place + 1 < len(parts):
        moved = _with(messages, index, tuple(_swapped(parts, place, place + 1)))
        yield Negative("thought moved", moved, ("DanglingReasoning", "ReasoningOutOfOrder"))


def _with(messages: list[Message], index: int, parts: Sequence[Part]) -> list[Message]:
    changed = [replace(messages[index], parts=tuple(parts))] if parts else []
    return [*messages[:index], *changed, *messages[index + 1 :]]


def _swapped(things: Sequence[Any], one: int, other: int) -> tuple[Any, ...]:
    swapped = list(things)
    swapped[one], swapped[other] = swapped[other], swapped[one]
    return tuple(swapped)


def score(file: Path) -> Scores:
    """Hold all recorded conversations against our model."""
    accepted = taken = surviving = 0
    made, refused, alone = Counter[str](), Counter[str](), Counter[str]()
    remarks: list[str] = []
    for record in filter(_accepted, recordings(file)):
        accepted += 1
        name = record["id"]
        messages = read(record["endpoint"], record["host"], record["request"])
        violation = validate(messages, SENDABLE)
        if violation is not None:
            remarks.append(f"refused: {name}: {violation}")
            continue
        taken += 1
        difference = changed(record, messages)
        surviving += difference is None
        if difference is not None:
            remarks.append(f"changed: {name}: {difference}")
        for negative in negatives(messages):
            made[negative.kind] += 1
            found = validate_rewrite(messages, negative.messages)
            right = _right(found[:1], negative)
            refused[negative.kind] += right
            alone[negative.kind] += validate(negative.messages, SENDABLE) is not None
            if not right:
                codes = [each.code for each in found]
                remarks.append(f"{negative.kind}: {name}: {codes}, not one of {negative.codes}")
    return Scores(accepted, taken, surviving, made, refused, alone, remarks)


def _accepted(record: dict[str, Any]) -> bool:
    """Whether the server took it, and it has several messages."""
    request = record["request"] or {}
    messages = request.get("messages") or request.get("input")
    several = isinstance(messages, list) and len(messages) > 1
    return several and record["status"] == 200 and not record.get("request_trimmed")


def _right(found: list[Violation], negative: Negative) -> bool:
    return any(violation.code in negative.codes for violation in found)


def changed(record: dict[str, Any], messages: list[Message]) -> str | None:
    """What a request says otherwise once we have read and written it; None if nothing."""
    before = meaning(record["endpoint"], record["request"])
    written = write(record["endpoint"], record["host"], messages)
    after = meaning(record["endpoint"], written)
    if before == after:
        return None
    pairs = [pair for pair in zip(before, after, strict=False) if pair[0] != pair[1]]
    if not pairs:
        return f"{len(before)} statements became {len(after)}: {str((before + after)[-1])[:200]}"
    return f"{str(pairs[0][0])[:200]} became {str(pairs[0][1])[:200]}"


def main() -> int:
    """Print the figures, and each disagreement."""
    scores = score(needed(TRAFFIC))
    for remark in scores.remarks:
        print(remark)
    print(f"taken: {_share(scores.taken, scores.accepted)} of those that a server took")
    print(f"unchanged in meaning: {_share(scores.surviving, scores.taken)}")
    for kind, count in sorted(scores.negatives.items()):
        print(f"{kind}: {_share(scores.refused[kind], count)} refused, {scores.refused_alone[kind]} by themselves")
    total, right = scores.negatives.total(), scores.refused.total()
    print(f"all negatives: {_share(right, total)} refused with the right code")
    good = scores.taken >= 0.995 * scores.accepted and right >= 0.99 * total
    return 0 if good else 1


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({100 * part / max(whole, 1):.2f} %)"


if __name__ == "__main__":
    raise SystemExit(main())
