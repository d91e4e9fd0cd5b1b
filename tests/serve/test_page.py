"""The page in a real browser: what can be seen and done with it, its speed, and who can use it."""

import json
import time
from typing import Any

import pytest
from axe_core_python.sync_playwright import Axe
from playwright.sync_api import APIResponse, Browser, Page, Route, expect

from tests.samples import LONG
from tests.serve.page_server import BEGAN, PageServer, ServedRun, node

pytestmark = pytest.mark.skipif(not LONG, reason="test_page_flows.py has the smoke test")
AXE = Axe()
USAGE = {"input": 1_840, "output": 212}


def _approval(**more: Any) -> dict[str, Any]:
    plain = {"id": "p-1", "kind": "approval", "tool": "refund", "arguments": {"order": 17, "amount": 42.5}}
    return {**plain, "text": None, "answer": None, "path": "run/refund", "expires": None, **more}


def _question(**more: Any) -> dict[str, Any]:
    return _approval(
        id="p-2",
        kind="question",
        tool="ask",
        text="Which language?",
        **{"answer": {"enum": ["English", "German"]}, **more},
    )


def _waiting(server: PageServer) -> ServedRun:
    run = server.add("r-1", status="Suspended", prompt="Refund order 17", pending=[_approval(), _question()])
    run.nodes = [
        node(1, "run", 0, kind="call", status="waiting", ended=None, path="run"),
        node(2, "model", kind="model", usage=USAGE, cost=0.004, text="I look it up."),
        node(3, "refund", status="waiting", ended=None, text="refund(order=17)"),
        node(4, "policy", status="failed", text="PermissionError"),
    ]
    run.calls[2] = {
        "messages": [
            {"role": "system", "content": "You help."},
            {"role": "user", "content": [{"text": "Refund order 17"}]},
        ],
        "reply": "I look it up.",
    }
    run.calls[3] = {"arguments": {"order": 17}, "result": {"refunded": True}, "error": None}

    def decided(path: str, body: dict[str, Any]) -> dict[str, Any]:
        for decision in body.get("decisions", ()):
            run.detail["pending"] = [each for each in run.detail["pending"] if each["id"] != decision["id"]]
        server.emit(run, "Decided", {})
        return {}

    server.on_post = decided
    return run


def _open(page: Page, server: PageServer, place: str) -> None:
    page.goto(f"{server.url}/#{place}")


def _watch(page: Page, server: PageServer, run_id: str) -> None:
    with page.expect_request("**/events*"):
        _open(page, server, f"/runs/{run_id}")


def test_the_list_is_filtered_searched_and_paged(page: Page, server: PageServer) -> None:
    for number in range(60):
        status = ("Completed", "Failed", "running")[number % 3]
        server.add(
            f"r-{number}", status=status, prompt=f"Order {number}", labels={"size": "big" if number % 2 else "small"}
        )
    _open(page, server, "/runs")
    rows = page.locator("a.row")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(rows).to_have_count(60)
    page.get_by_label("Status").select_option("Failed")
    expect(rows).to_have_count(20)
    page.get_by_label("Label", exact=True).fill("size:big")
    expect(rows).to_have_count(10)
    page.keyboard.press("Escape")
    page.get_by_label("Search in prompts").fill("order 19")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("Order 19")
    page.get_by_label("Search in prompts").fill("nothing like it")
    expect(page.get_by_text("No run matches")).to_be_visible()


def test_a_run_is_started(page: Page, server: PageServer) -> None:
    def started(path: str, body: dict[str, Any]) -> dict[str, Any]:
        server.add("r-new", status="running", prompt=body["prompt"])
        return {"run_id": "r-new"}

    server.on_post = started
    _open(page, server, "/runs")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    page.keyboard.press("n")
    page.get_by_label("Prompt", exact=True).fill("Write a poem")
    page.get_by_label("Labels optional").fill("team")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("alert")).to_contain_text("has no value")
    page.get_by_label("Labels optional").fill("team:red, size:big")
    page.get_by_label("Session optional").fill("s-1")
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name="Write a poem")).to_be_visible()
    body = {"agent": "helper", "prompt": "Write a poem", "labels": {"team": "red", "size": "big"}, "session": "s-1"}
    assert server.posts == [("/runs", body)]


DECISIONS = {
    "approve": {"id": "p-1", "action": "approve"},
    "deny": {"id": "p-1", "action": "deny", "reason": "too much"},
    "modify": {"id": "p-1", "action": "modify", "arguments": {"order": 17, "amount": 1}},
    "choose": {"id": "p-2", "action": "answer", "answer": "German"},
    "answer": {"id": "p-2", "action": "answer", "answer": "French"},
}


@pytest.mark.parametrize("way", DECISIONS)
def test_a_decision_is_sent_with_the_id_of_what_waits(page: Page, server: PageServer, way: str) -> None:
    run = _waiting(server)
    if way == "answer":
        run.detail["pending"][1] = _question(answer={"type": "string"})
    _open(page, server, "/runs/r-1")
    items = page.get_by_role("article")
    expect(items).to_have_count(2)
    if way == "approve":
        page.get_by_role("button", name="Approve").click()
    elif way == "deny":
        page.get_by_role("button", name="Deny …").click()
        page.get_by_label("Reason").fill("too much")
        page.get_by_role("button", name="Deny", exact=True).click()
    elif way == "modify":
        page.get_by_role("button", name="Modify …").click()
        area = page.get_by_label("Arguments, as JSON")
        assert json.loads(area.input_value()) == {"order": 17, "amount": 42.5}
        area.fill("{")
        page.get_by_role("button", name="Approve as changed").click()
        expect(page.get_by_role("alert")).to_contain_text("not JSON")
        area.fill('{"order": 17, "amount": 1}')
        page.get_by_role("button", name="Approve as changed").click()
    elif way == "choose":
        page.get_by_role("button", name="German").click()
    else:
        page.get_by_role("button", name="Answer …").click()
        page.get_by_label("Answer").fill("French")
        page.get_by_role("button", name="Answer", exact=True).click()
    expect(items).to_have_count(1)
    assert server.posts == [("/runs/r-1/decisions", {"decisions": [DECISIONS[way]]})]


def test_what_can_be_done_with_a_run(page: Page, server: PageServer) -> None:
    _waiting(server)
    server.add("r-2", prompt="The fork")
    server.on_post = lambda path, body: {"run_id": "r-2"} if path.endswith("/fork") else {}
    _open(page, server, "/runs/r-1/2")
    page.get_by_role("button", name="Message").click()
    page.get_by_label("Message").last.fill("Hurry up")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Replayed from the record")).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Fork here").click()
    page.get_by_label("Another prompt").fill("Refund order 18")
    page.get_by_role("button", name="Fork", exact=True).last.click()
    expect(page.get_by_role("heading", name="The fork")).to_be_visible()
    verbs = [(path.rpartition("/")[2], body) for path, body in server.posts]
    assert verbs == [
        ("inject", {"text": "Hurry up"}), ("replay", {}), ("resume", {}), ("cancel", {}),
        ("fork", {"at": 2, "prompt": "Refund order 18"}),
    ]  # fmt: skip


def test_a_call_is_shown_in_full_and_has_a_link(page: Page, server: PageServer) -> None:
    _waiting(server)
    _open(page, server, "/runs/r-1/2")
    panel = page.get_by_label("Call", exact=True)
    expect(panel).to_contain_text("You help.")
    expect(panel).to_contain_text("Refund order 17")
    expect(panel).to_contain_text("1,840")
    page.get_by_role("treeitem", name="refund").click()
    expect(panel).to_contain_text('"refunded": true')
    assert page.url.endswith("#/runs/r-1/3")
    page.reload()
    expect(panel).to_contain_text('"refunded": true')


def test_a_run_is_watched_live_within_200_ms(page: Page, server: PageServer) -> None:
    run = server.add("r-1", status="running", prompt="Count")
    run.nodes = [node(1, "model", 0, kind="model", status="running", ended=None, path="run/model")]
    _watch(page, server, "r-1")
    expect(page.get_by_role("treeitem")).to_have_count(1)
    page.evaluate(
        "window.lags = {}; new MutationObserver(() => {"
        "for (const [, sent] of document.querySelector('.now')?.textContent.matchAll(/sent (\\d+)/g) ?? [])"
        "window.lags[sent] ??= Date.now() - sent; })"
        ".observe(document.body, {subtree: true, childList: true, characterData: true})"
    )
    for _ in range(10):
        sent = str(int(time.time() * 1000))
        server.emit(run, "Delta", {"path": "run/model", "text": f"sent {sent}. "})
        expect(page.locator(".now")).to_contain_text(sent)
    lags = page.evaluate("Object.values(window.lags)")
    assert len(lags) == 10
    assert min(lags) <= 200
    run.nodes.append(node(2, "count", text="count()"))
    server.emit(run, "ToolEnded", {})
    expect(page.get_by_role("treeitem")).to_have_count(2)
    run.detail.update(status="Completed", output="All counted")
    server.emit(run, "end", {})
    expect(page.get_by_label("Output")).to_have_text("All counted")


def test_nothing_is_lost_when_the_server_restarts(page: Page, server: PageServer) -> None:
    run = server.add("r-1", status="running", prompt="Count")
    run.nodes = [node(1, "model", 0, kind="model", status="running", ended=None, path="run/model")]
    _watch(page, server, "r-1")
    now = page.locator(".now")
    words: list[str] = []
    for part in range(3):
        words += [f"{part}-{number}" for number in range(200)]
        for word in words[-200:]:
            server.emit(run, "Delta", {"path": "run/model", "text": word + " "})
        expect(now).to_contain_text(words[-1])
        if part < 2:
            server.stop()
            expect(page.get_by_text("connecting again")).to_be_visible()
            server.start()
            expect(page.get_by_text("connecting again")).to_have_count(0)
    assert now.inner_text().split()[-250:] == words[-250:]
    assert server.streams == ["0.0", "200.0", "400.0"]


def test_a_run_that_has_ended_is_not_followed_for_ever(page: Page, server: PageServer) -> None:
    run = server.add("r-1", status="running", prompt="Count")
    _watch(page, server, "r-1")
    expect(page.get_by_role("heading", name="Count")).to_be_visible()
    readings: list[tuple[Route, APIResponse]] = []
    page.route("**/runs/r-1", lambda route: readings.append((route, route.fetch())), times=1)
    with page.expect_request("**/runs/r-1"):
        server.emit(run, "ToolEnded", {})
    page.wait_for_function("document.title")  # as routes are held by calls of this thread
    with page.expect_event("requestfinished", lambda request: "/events" in request.url):
        run.detail.update(status="Completed", output="All counted")
        server.emit(run, "end", {})
    [(route, before)] = readings
    assert before.json()["status"] == "running"
    route.fulfill(response=before)
    expect(page.get_by_label("Output")).to_have_text("All counted")
    page.reload()  # which follows from the end on
    expect(page.get_by_label("Output")).to_have_text("All counted")
    with page.expect_response("**/runs/r-1"):
        page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("alert")).to_have_count(0)
    assert server.streams == ["0.0", "2.0"]


def test_a_hidden_page_has_no_stream(page: Page, server: PageServer) -> None:
    run = server.add("r-1", status="running")
    _watch(page, server, "r-1")
    expect(page.get_by_role("heading", name="Hello")).to_be_visible()
    turn = "(hidden) => { Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});"
    turn += "document.dispatchEvent(new Event('visibilitychange')) }"
    expect(page.locator(".run-page")).to_be_visible()
    server.emit(run, "Delta", {"path": "", "text": "one "})
    expect(page.locator(".now")).to_have_text("one ")
    page.evaluate(turn, True)
    server.emit(run, "Delta", {"path": "", "text": "two"})
    page.evaluate(turn, False)
    expect(page.locator(".now")).to_have_text("one two")
    assert server.streams == ["0.0", "1.0"]


def test_two_runs_are_compared(page: Page, server: PageServer) -> None:
    server.diff["rows"] = [
        {"kind": "same", "path": "run/one", "name": "one"},
        {"kind": "changed", "path": "run/two", "name": "two", "a": "red", "b": {"colour": "blue"}},
        {"kind": "only_b", "path": "run/three", "name": "three", "b": "green"},
    ]
    _open(page, server, "/diff?a=r-1")
    page.get_by_label("Second run").fill("r-2")
    page.get_by_role("button", name="Compare").click()
    rows = page.locator(".diff-row")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text('"colour": "blue"')
    page.get_by_label("also what is the same").check()
    expect(rows).to_have_count(3)


def test_errors_of_the_server_are_shown(page: Page, server: PageServer) -> None:
    _open(page, server, "/runs/none")
    expect(page.get_by_text("there is no 'none'")).to_be_visible()
    _open(page, server, "/elsewhere")
    expect(page.get_by_text("There is no such page")).to_be_visible()


def test_the_tree_is_used_by_keys(page: Page, server: PageServer) -> None:
    run = server.add("r-1")
    run.nodes = [node(1, "run", 0), node(2, "first", 1), node(3, "inner", 2), node(4, "second", 1)]
    _open(page, server, "/runs/r-1")
    items, chosen = page.get_by_role("treeitem"), page.get_by_role("treeitem", selected=True)
    expect(items).to_have_count(4)
    page.get_by_role("tree").focus()
    for key, name, shown in [
        ("j", "run", 4), ("ArrowDown", "first", 4), ("ArrowLeft", "first", 3), ("j", "second", 3), ("k", "first", 3),
        ("ArrowRight", "first", 4), ("ArrowRight", "inner", 4), ("ArrowLeft", "first", 4), ("ArrowLeft", "first", 3),
        ("ArrowLeft", "run", 3), ("End", "second", 3), ("Home", "run", 3),
    ]:  # fmt: skip
        page.keyboard.press(key)
        expect(chosen).to_contain_text(name)
        expect(items).to_have_count(shown)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_20_000_calls_are_there_within_300_ms_and_few_are_drawn(page: Page, server: PageServer) -> None:
    run = server.add("r-1")
    run.nodes = [node(number, f"call-{number}", min(number, 1)) for number in range(20_000)]
    _open(page, server, "/runs")
    expect(page.locator("a.row")).to_have_count(1)
    first_view = (
        "() => new Promise((done) => { const began = performance.now(); location.hash = '#/runs/r-1';"
        "new MutationObserver((_, self) => { if (!document.querySelector('[role=treeitem]')) return; self.disconnect();"
        "requestAnimationFrame(() => done(performance.now() - began)); })"
        ".observe(document.body, {subtree: true, childList: true}); })"
    )
    times: list[float] = []
    for _ in range(3):
        times.append(page.evaluate(first_view))
        expect(page.get_by_text("20,000 calls")).to_be_visible()
        page.get_by_role("tree").focus()
        expect(page.locator(".tree-all")).to_have_css("height", "600000px")
        page.keyboard.press("End")
        expect(page.get_by_role("treeitem", selected=True)).to_contain_text("call-19999")
        assert page.get_by_role("treeitem").count() < 100
        _open(page, server, "/runs")
        expect(page.locator("a.row")).to_have_count(1)
    assert min(times) <= 300


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_has_no_serious_finding(browser: Browser, server: PageServer, theme: str) -> None:
    _waiting(server)
    for status in ("Failed", "running", "Cancelled"):
        server.add(f"r-{status}", status=status, error="It broke" if status == "Failed" else None, labels={"a": "b"})
    server.diff["rows"] = [{"kind": "changed", "path": "run/two", "name": "two", "a": "red", "b": "blue"}]
    server.sessions["anna"] = [{"role": "user", "content": "Hello there"}]
    server.memories = [{"id": "m-1", "text": "Prefers letters.", "kind": "fact", "updated": BEGAN}]
    context = browser.new_context(color_scheme="dark" if theme == "dark" else "light", bypass_csp=True)
    page = context.new_page()
    for place, mark in {
        "/runs": "a.row", "/runs/r-1/2": ".message", "/runs/r-Failed": ".failed-box", "/diff?a=r-1&b=r-2": ".diff-row",
        "/sessions": "a.row", "/sessions/anna": ".message", "/memory": ".memory", "/runs?search=none": ".empty",
    }.items():  # fmt: skip
        page.goto(f"{server.url}/#{place}")
        page.locator(mark).first.wait_for()
        findings = [
            (found["id"], each["html"])
            for found in AXE.run(page)["violations"]
            if found["impact"] in ("serious", "critical")
            for each in found["nodes"]
        ]
        assert not findings, place
    context.close()


def test_the_theme_is_chosen_and_stays(page: Page, server: PageServer) -> None:
    colours: set[str] = set()
    _open(page, server, "/runs")
    page.get_by_label("Theme: system").wait_for()
    for theme in ("light", "dark"):
        page.keyboard.press("t")
        page.get_by_label(f"Theme: {theme}").wait_for()
        page.reload()
        page.get_by_label(f"Theme: {theme}").wait_for()
        colours.add(str(page.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert len(colours) == 2
