"""Hypothesis strategies for every message type."""

import itertools
from collections.abc import Iterable

from hypothesis import strategies as st

from ziggurat import Image, Message, Text, ToolCall, ToolResult, Usage
from ziggurat.core.codec import encode
from ziggurat.core.errors import ToolErrorKind
from ziggurat.events import TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages import Audio, File, Thinking
from ziggurat.messages.message import Part, PartDelta

words = st.text(max_size=8)
some_text = st.text(min_size=1, max_size=8)
maybe = st.none() | words
data = st.none() | st.binary(max_size=6)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=5,
)
json_objects = st.dictionaries(words, json_values, max_size=3)

texts = st.builds(Text, words)
images = st.builds(Image, data, maybe, st.sampled_from(["image/png", "image/jpeg"]), maybe)
audios = st.builds(Audio, data, maybe)
files = st.builds(File, data, maybe, maybe, maybe)
thoughts = st.builds(Thinking, words, maybe, maybe, maybe)
arguments = json_objects.map(lambda value: encode(value).decode()) | words
calls = st.builds(ToolCall, words, words, arguments)
error_kinds = st.sampled_from(ToolErrorKind.__args__)  # type: ignore[attr-defined]
results = st.builds(
    ToolResult,
    words,
    words,
    words | st.lists(texts | images | audios | files, max_size=2).map(tuple),
    st.none() | error_kinds,
    maybe,
)
parts: st.SearchStrategy[Part] = st.one_of(texts, images, audios, files, thoughts, calls, results)
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.lists(parts, max_size=4).map(tuple),
    maybe,
    maybe,
)
counts = st.none() | st.integers(0, 10**6)
usages = st.builds(
    Usage, counts, counts, counts, counts, counts, st.integers(0, 9), st.just(""), estimated=st.booleans()
)


def folded(chosen: Iterable[Part]) -> tuple[Part, ...]:
    """Remove what deltas cannot express: empty texts, and borders between adjacent parts that fold into one."""
    kept: list[Part] = []
    for part in chosen:
        last = kept[-1] if kept else None
        if part == Text("") or (isinstance(part, Text) and isinstance(last, Text)):
            continue
        if isinstance(part, Thinking) and isinstance(last, Thinking) and _one_piece(last, part):
            continue
        kept.append(part)
    return tuple(kept)


def _one_piece(one: Thinking, other: Thinking) -> bool:
    ended = one.signature is not None or one.redacted is not None or other.redacted is not None
    return not ended and (one.id is None or other.id is None or one.id == other.id)


replies = st.lists(parts, max_size=5).map(lambda chosen: Message("assistant", folded(chosen)))
"""Messages as models make them."""


@st.composite
def pieces(draw: st.DrawFn, whole: PartDelta) -> list[PartDelta]:
    """Split a delta as a provider might: text anywhere, ids and names first, signatures last."""
    if isinstance(whole, TextDelta):
        return [TextDelta(each) for each in draw(_split(whole.text))]
    if isinstance(whole, ThinkingDelta) and whole.redacted is None:
        first, *rest = draw(_split(whole.text))
        thought = [ThinkingDelta(first, id=whole.id), *map(ThinkingDelta, rest)]
        return [*thought, ThinkingDelta(signature=whole.signature)] if whole.signature is not None else list(thought)
    if isinstance(whole, ToolCallDelta):
        first, *rest = draw(_split(whole.arguments))
        return [
            ToolCallDelta(whole.index, first, whole.id, whole.name),
            *(ToolCallDelta(whole.index, each) for each in rest),
        ]
    return [whole]


@st.composite
def _split(draw: st.DrawFn, text: str) -> list[str]:
    cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=3)))
    borders = [0, *cuts, len(text)]
    return [text[start:end] for start, end in itertools.pairwise(borders)]
