from typing import Any, Literal, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import Approve, Deny, Event, Modify
from ziggurat.core.codec import decode, encode
from ziggurat.core.failures import Cause
from ziggurat.events import Diverged, Dropped, Retrying
from ziggurat.messages import events
from ziggurat.messages.events import AnyEvent
from ziggurat.messages.message import deltas_of

from .strategies import calls, messages, results, words
from .test_agent import pending, runs
from .test_model import responses

deltas = messages.map(lambda message: list(deltas_of(message))).filter(bool).map(lambda found: found[0])
seconds = st.floats(0, 1e6)
counts = st.integers(0, 99)
FIELDS: dict[str, st.SearchStrategy[object]] = {
    "decision": st.sampled_from([Approve(), Deny("no"), Modify("{}")]),
    "delta": deltas,
    "item": pending,
    "run": runs,
    "response": responses,
    "call": calls,
    "result": results,
}
PLAIN: dict[object, st.SearchStrategy[object]] = {
    str: words,
    int: counts,
    float: seconds,
    bool: st.booleans(),
    float | None: st.none() | seconds,
    str | None: st.none() | words,
    Cause | None: st.none() | st.builds(Cause, words, words),
    tuple[str, ...]: st.lists(words).map(tuple),
    tuple[dict[str, Any], ...]: st.lists(st.dictionaries(words, words)).map(tuple),
}


def any_of(kind: type[Event]) -> st.SearchStrategy[Event]:
    """Build an event from its field types, so that new event types are tested automatically."""
    fields = msgspec.structs.fields(kind)
    return st.builds(kind, *(FIELDS[each.name] if each.name in FIELDS else _plain(each.type) for each in fields))


def _plain(kind: object) -> st.SearchStrategy[object]:
    return st.sampled_from(get_args(kind)) if get_origin(kind) is Literal else PLAIN[kind]


@pytest.mark.parametrize("kind", get_args(AnyEvent), ids=lambda kind: kind.__name__)
@settings(max_examples=amount(5, 25))
@given(data=st.data())
def test_every_event_comes_back_through_json(kind: type[Event], data: st.DataObject) -> None:
    event = data.draw(any_of(kind))
    assert decode(encode(event), AnyEvent) == event


def test_the_union_holds_every_event() -> None:
    ours = {kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, Event)} - {Event}
    core = {each for each in Event.__subclasses__() if each.__module__ == "ziggurat.core.event"}
    assert set(get_args(AnyEvent)) == ours | core
    assert {Diverged, Dropped, Retrying} <= core


def test_events_are_told_apart_by_name() -> None:
    assert encode(Dropped("run/x", "late")) == b'{"event":"Dropped","path":"run/x","why":"late"}'
