"""A reply that is written as its pieces come is the one that is written when it is known as a whole."""

from itertools import groupby
from typing import Any, get_args

from hypothesis import given, strategies as st

from ziggurat import Usage
from ziggurat.events import Fold, TextDelta, ThinkingDelta, ToolCallDelta
from ziggurat.messages.message import PartDelta
from ziggurat.wires.types import ReplyHead, ResponseChunk, Wire
from ziggurat.wires.writer import WRITERS, LiveReply

USAGE = Usage(input=3, output=5)
WIRES: tuple[Wire, ...] = get_args(Wire)
text = st.text("ab ", max_size=3)
part = st.one_of(
    st.lists(st.builds(TextDelta, text), min_size=1, max_size=3),
    st.lists(st.builds(ThinkingDelta, text), min_size=1, max_size=3),
    st.lists(text, max_size=3),
)


def pieces_of(parts: list[list[Any]]) -> list[PartDelta]:
    """Return the pieces of parts; lists of texts become calls of tools, with the texts as arguments."""
    pieces: list[PartDelta] = []
    for number, each in enumerate(parts):
        if each and not isinstance(each[0], str):
            pieces += each
        else:
            pieces.append(ToolCallDelta(number, "", f"id-{number}", "look"))
            pieces += [ToolCallDelta(number, text) for text in each]
    return pieces


def head(stream_options: object = None) -> ReplyHead:
    return ReplyHead("1", "clerk", {"stream_options": stream_options}, usage=USAGE)


def live(wire: Wire, pieces: list[PartDelta]) -> list[ResponseChunk]:
    reply = LiveReply(WRITERS[wire](head({"include_usage": True})))
    events: list[ResponseChunk] = []
    for piece in pieces:
        events += reply.push(piece)
    return [*events, *reply.finish("stop", USAGE)]


@given(parts=st.lists(part, max_size=4))
def test_blocks_of_anthropic_follow_one_another(parts: list[list[Any]]) -> None:
    events = [event.event for event in live("messages", pieces_of(parts))]
    kinds = [kind for kind, _ in groupby(events)]
    assert kinds[:2] == ["message_start", "ping"]
    assert kinds[-2:] == ["message_delta", "message_stop"]
    opened = 0
    for kind in events[2:-2]:
        opened += {"content_block_start": 1, "content_block_stop": -1}.get(kind, 0)
        assert opened in (0, 1)
        assert opened or kind == "content_block_stop"
    assert opened == 0


@given(parts=st.lists(part, max_size=4))
def test_the_events_of_responses_end_with_the_whole_response(parts: list[list[Any]]) -> None:
    pieces = [piece for piece in pieces_of(parts) if piece != TextDelta("")]
    fold = Fold()
    for piece in pieces:
        fold.push(piece)
    events = [event.data for event in live("responses", pieces)]
    assert [event["sequence_number"] for event in events if isinstance(event, dict)] == list(range(len(events)))
    last = events[-1]
    assert isinstance(last, dict)
    assert last["response"] == WRITERS["responses"](head()).plain(fold.message().parts, "stop", USAGE)
