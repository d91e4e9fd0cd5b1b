"""Pages of other sites, of another port and of a name that points here, against the real server in a real browser.

The browser is logged in, so it has the cookie; a page of the server itself can do all that the others try.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Route

from tests.samples import LONG
from tests.serve.real_server import RealServer
from tests.serve.serving import TOKEN
from tests.serve.test_app import paying
from ziggurat.serve import app

pytestmark = pytest.mark.skipif(not LONG, reason="test_page_flows.py has the smoke test")
FORM = """
const form = document.createElement('form'); form.method = 'post'; form.action = url; form.enctype = '%s';
const field = document.createElement('input'); field.name = body.slice(0, -1) + ',"x":"'; field.value = '"}';
form.append(field); const frame = document.createElement('iframe'); frame.name = 'f' + Math.random();
form.target = frame.name; document.body.append(frame, form); form.submit();
await new Promise((done) => { frame.onload = done; setTimeout(done, 60); });
return await frame.contentDocument?.body.innerText ?? '';
"""
WRITES = {  # of a page that wants to change something: what it reads of the answer
    "fetch": "return (await fetch(url, {method: 'POST', body, credentials: 'include', headers})).text()",
    "plain": "return (await fetch(url, {method: 'POST', body, mode: 'no-cors', credentials: 'include'})).text()",
    "lasting": "return (await fetch(url, {method: 'POST', body, mode: 'no-cors', keepalive: true})).text()",
    "beacon": "navigator.sendBeacon(url, new Blob([body], {type: 'text/plain'})); return ''",
    "typed beacon": "navigator.sendBeacon(url, new Blob([body], {type: 'application/json'})); return ''",
    "request": "const ask = new XMLHttpRequest(); ask.withCredentials = true; ask.open('POST', url, false);"
    "ask.send(body); return ask.responseText",
    "form as text": FORM % "text/plain",
    "form": FORM % "application/x-www-form-urlencoded",
    "form of parts": FORM % "multipart/form-data",
}
LOADED = """
const made = document.createElement('%s'); made.%s = url; document.body.append(made);
await new Promise((done) => { made.onload = done; made.onerror = done; setTimeout(done, 60); });
"""
READS = {
    "fetch": "return (await fetch(url, {credentials: 'include'})).text()",
    "opaque fetch": "return (await fetch(url, {mode: 'no-cors', credentials: 'include'})).text()",
    "request": "const ask = new XMLHttpRequest(); ask.withCredentials = true; ask.open('GET', url, false); ask.send();"
    "return ask.responseText",
    "frame": LOADED % ("iframe", "src") + "return made.contentDocument.body.innerText",
    "object": LOADED % ("object", "data") + "return made.contentDocument.body.innerText",
    "script": LOADED % ("script", "src") + "return ''",
    "image": LOADED % ("img", "src") + "return made.naturalWidth ? 'desk' : ''",
    "style": "const made = document.createElement('link'); made.rel = 'stylesheet'; made.href = url;"
    "document.head.append(made); await new Promise((done) => { made.onload = made.onerror = done; });"
    "return made.sheet ? [...made.sheet.cssRules].map((rule) => rule.cssText).join() : ''",
    "module": "return JSON.stringify(await import(url))",
    "events": "const stream = new EventSource(url, {withCredentials: true});"
    "return await new Promise((done) => { stream.onopen = () => done('desk'); stream.onerror = () => done('');"
    "setTimeout(done, 200, '') }).finally(() => stream.close())",
    "window": "const made = window.open(url); await new Promise((done) => setTimeout(done, 60));"
    "try { return made.document.body.innerText } finally { made?.close() }",
}
CHANGES = {
    "/runs": '{"agent":"desk","prompt":"steal"}',
    "/runs/r-1/cancel": "{}",
    "/runs/r-1/inject": '{"text":"steal"}',
}
SOURCES = {  # the address of a page of somebody else
    "another port": "http://127.0.0.1:9/attack",
    "another name of this machine": "http://localhost:9/attack",
    "another site": "http://evil.test:9/attack",
    "a name that points here": "http://evil.test:{port}/attack",
}


def _state(server: RealServer) -> list[tuple[str, str]]:
    """Return the runs of the server, each with its status."""
    return sorted((run["run_id"], run["status"]) for run in server.get("/runs")["runs"])


@pytest.fixture(scope="module")
def acts() -> list[int]:
    return []


@pytest.fixture(scope="module")
def real_server(acts: list[int]) -> Iterator[RealServer]:
    """The server, with a run that waits for approval of a payment."""
    server = RealServer(lambda: app(paying(acts), token=TOKEN))
    server.post("/runs", {"agent": "desk", "prompt": "Pay 3.", "run_id": "r-1"})
    while server.get("/runs/r-1")["status"] != "Suspended":
        pass
    yield server
    server.stop()


@pytest.fixture(scope="module")
def context(browser: Browser, real_server: RealServer) -> Iterator[BrowserContext]:
    """A browser that was logged in by the link, and that sees the pages of attackers."""
    opened = browser.new_context()

    def attacker(route: Route) -> None:
        route.fulfill(body="<!doctype html><title>x</title><body></body>", content_type="text/html")

    opened.route("**/attack", attacker)
    page = opened.new_page()
    page.goto(real_server.login)
    page.get_by_text("Pay 3.").wait_for()
    assert "token" not in page.url
    page.close()
    yield opened
    opened.close()


def _run(page: Any, code: str, url: str, body: str) -> str:
    """Run an attack in a page, and return what it could read."""
    script = (
        "async ([url, body]) => { const headers = {'Content-Type': 'application/json'};"
        f"try {{ return String(await (async () => {{ {code} }})()) }} catch {{ return '' }} }}"
    )
    return str(page.evaluate(script, [url, body]))


@pytest.mark.parametrize("source", SOURCES)
def test_a_page_of_others_reads_and_changes_nothing(
    context: BrowserContext, real_server: RealServer, acts: list[int], source: str
) -> None:
    before = _state(real_server)
    page = context.new_page()
    page.goto(SOURCES[source].format(port=real_server.port))
    names = ["127.0.0.1"] + ["evil.test"] * (source == "a name that points here")
    for name in names:
        address = f"http://{name}:{real_server.port}"
        for way, code in READS.items():
            for path in ("/", "/runs", "/runs/r-1", "/runs/r-1/events"):
                text = _run(page, code, address + path, "")
                assert not any(word in text for word in ("desk", "r-1", "Ziggurat")), (way, path)
        for way, code in WRITES.items():
            for path, body in CHANGES.items():
                text = _run(page, code, address + path, body)
                assert "run_id" not in text, (way, path)
    page.close()
    assert _state(real_server) == before == [("r-1", "Suspended")]
    assert not acts


def test_the_page_of_the_server_itself_can_do_the_same(context: BrowserContext, real_server: RealServer) -> None:
    """So what stops the others is where they come from."""
    address = real_server.url
    page = context.new_page()
    page.goto(address)
    assert "desk" in _run(page, READS["fetch"], f"{address}/runs", "")
    body = '{"agent":"desk","prompt":"Pay.","run_id":"r-2"}'
    assert "run_id" in _run(page, WRITES["fetch"], f"{address}/runs", body)
    assert "r-2" in dict(_state(real_server))
    page.close()
