import asyncio
import io
import logging

import pytest

from ziggurat import Event
from ziggurat.core import root
from ziggurat.core.event import SILENCE, Listeners
from ziggurat.events import Diverged, Dropped, Retrying

from .hand import run


class Recorder:
    """An `Emit` that stores its events."""

    blocked = 1.5

    def __init__(self) -> None:
        self.events: list[Event] = []

    async def __call__(self, event: Event, /) -> None:
        self.events.append(event)

    def listens(self, kind: type[Event], /) -> bool:
        return kind is Dropped


def test_whether_anybody_listens_is_asked_by_kind() -> None:
    run(SILENCE(Dropped("run", "why")))
    assert not SILENCE.listens(Event)
    assert not root().listens(Dropped)
    ctx = root(emit=Recorder())
    assert ctx.listens(Dropped)
    assert not ctx.listens(Retrying)


def test_without_listeners_the_way_out_is_the_same() -> None:
    out = Recorder()
    assert root(emit=out).heard_by().emit is out


def test_what_a_plain_listener_returns_is_not_looked_at(caplog: pytest.LogCaptureFixture) -> None:
    written = io.StringIO()
    out = Recorder()
    run(Listeners(out, [lambda event: written.write(event.path)])(Dropped("run", "why")))
    assert written.getvalue() == "run"
    assert len(out.events) == 1
    assert not caplog.records


def test_listeners_hear_in_order_and_then_the_outer_way_out() -> None:
    heard: list[str] = []
    out = Recorder()

    async def later(event: Event) -> None:
        await asyncio.sleep(0)
        heard.append("later")

    emit = Listeners(out, [lambda event: heard.append("at once"), later])
    event = Dropped("run", "why")
    run(emit(event))
    assert heard == ["at once", "later"]
    assert out.events == [event]
    assert emit.listens(Diverged)
    assert emit.blocked == 1.5


def test_listeners_nest() -> None:
    heard: list[str] = []
    ctx = root().heard_by(lambda _: heard.append("outer")).heard_by(lambda _: heard.append("inner"))
    run(ctx.under("x").emit(Dropped("run/x", "why")))
    assert sorted(heard) == ["inner", "outer"]


def test_a_listener_that_fails_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    out = Recorder()
    heard: list[Event] = []

    def broken(event: Event) -> None:
        raise ValueError("no")

    async def broken_later(event: Event) -> None:
        raise ValueError("no")

    event = Dropped("run/x", "why")
    with caplog.at_level(logging.WARNING, "ziggurat"):
        run(Listeners(out, [broken, broken_later, heard.append])(event))
    assert heard == out.events == [event]
    assert [record.getMessage() for record in caplog.records] == ["a listener failed on Dropped at run/x"] * 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
    assert all(record.exc_text.count('File "') == 1 for record in caplog.records if record.exc_text)


@pytest.mark.parametrize("level", [logging.DEBUG, logging.WARNING])
def test_the_first_error_of_a_listener_is_logged(level: int, caplog: pytest.LogCaptureFixture) -> None:
    def broken(event: Event) -> None:
        raise ValueError("no")

    emit = Listeners(Recorder(), [broken, broken])
    with caplog.at_level(level, "ziggurat"):
        for _ in range(3):
            run(emit(Dropped("run/x", "why")))
    later = [logging.DEBUG] * 4 if level == logging.DEBUG else []
    assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2 + later


def test_events_are_frozen_and_know_their_path() -> None:
    event = Retrying("run/x", 1, "boom", 0.5)
    assert event.path == "run/x"
    with pytest.raises(AttributeError):
        event.attempt = 2  # type: ignore[misc]
