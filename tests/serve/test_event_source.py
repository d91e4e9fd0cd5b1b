"""An EventSource of a browser follows a run, with the real server, over a decision and a restart to its end."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from playwright.sync_api import Browser, Page

from tests.samples import LONG
from tests.serve.real_server import RealServer
from tests.serve.serving import TOKEN
from tests.serve.test_events import desk
from ziggurat.core.entries import JournalEntry
from ziggurat.messages.events import AnyEvent
from ziggurat.messages.parts import tool_call
from ziggurat.serve.application import ServedApp, app

pytestmark = pytest.mark.skipif(not LONG, reason="test_page_flows.py has the smoke test")
NAMES = [
    *(each.__name__ for each in (*get_args(AnyEvent), *JournalEntry.__subclasses__())),
    *("waiting", "end", "bye", "reset"),
]
OPEN = """([path, names]) => {
    window.heard = []
    window.source = new EventSource(path)
    for (const name of names)
        source.addEventListener(name, (event) => heard.push([name, event.lastEventId, event.data]))
}"""
UNTIL = """([name, times]) => new Promise((done) => {
    const look = () => heard.filter((each) => each[0] === name).length >= times ? done() : setTimeout(look, 10)
    look()
})"""
CLOSED = """() => new Promise((done) => {
    const look = () => source.readyState === EventSource.CLOSED ? done() : setTimeout(look, 10)
    look()
})"""


class Source:
    """An EventSource in a page."""

    def __init__(self, page: Page, path: str) -> None:
        self._page = page
        page.evaluate(OPEN, [path, NAMES])

    def until(self, name: str, times: int = 1) -> None:
        """Wait until it has heard events of a name."""
        self._page.evaluate(UNTIL, [name, times])

    @property
    def heard(self) -> list[list[str]]:
        """The name, id and data of each event."""
        heard: list[list[str]] = self._page.evaluate("() => heard")
        return heard

    def closed(self) -> None:
        """Wait until it connects no more."""
        self._page.evaluate(CLOSED)


@pytest.fixture
def opened(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(extra_http_headers={"Authorization": f"Bearer {TOKEN}"})
    yield context.new_page()
    context.close()


def approve(server: RealServer) -> Any:
    [item] = server.get("/runs/r-1")["pending"]
    return server.post("/runs/r-1/decisions", {"decisions": [{"id": item["id"], "action": "approve"}]})


def test_an_event_source_follows_a_run_over_a_decision_and_a_restart(opened: Page, tmp_path: Path) -> None:
    def create(*replies: Any) -> ServedApp:
        return app(desk(*replies), token=TOKEN, store=f"sqlite:///{tmp_path / 'runs.db'}")

    server = RealServer(lambda: create(tool_call("pay", amount=3), ["All ", asyncio.Event()]))
    opened.goto(server.url)
    server.post("/runs", {"agent": "desk", "prompt": "Pay.", "run_id": "r-1"})
    source = Source(opened, "/runs/r-1/events")
    source.until("waiting")
    approve(server)
    source.until("ToolEnded")
    server.stop()
    source.until("bye")
    server = RealServer(lambda: create("All done."), server.port)
    source.until("waiting", 2)
    server.post("/runs/r-1/resume", {})
    source.until("end")
    source.closed()
    names = [name for name, _, _ in source.heard]
    entries = [place for name, place, _ in source.heard if place.isdigit() and name not in ("waiting", "bye")]
    assert entries == [str(number) for number in range(1, server.get("/runs/r-1")["entries"] + 1)]
    assert names.count("ToolEnded") == 1
    assert (names.count("end"), names.count("reset")) == (1, 0)
    server.stop()


def test_an_event_source_whose_place_is_unknown_begins_anew(opened: Page, tmp_path: Path) -> None:
    server = RealServer(lambda: app(desk("Hello."), token=TOKEN))
    opened.goto(server.url)
    server.post("/runs", {"agent": "desk", "prompt": "Greet.", "run_id": "r-1"})
    source = Source(opened, "/runs/r-1/events?after=900")
    source.until("end")
    assert [name for name, _, _ in source.heard][:2] == ["reset", "Opened"]
    server.stop()
