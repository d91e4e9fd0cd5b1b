"""What models, tools and users write is shown by the page as text: in every field, whatever it is."""

from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.samples import LONG
from tests.serve.page_server import PageServer, node

pytestmark = pytest.mark.skipif(not LONG, reason="test_page_flows.py has the smoke test")
PAYLOADS = {
    "script": "<script>attack('{}')</script>",
    "image": "<img src=x onerror=\"attack('{}')\">",
    "picture": "<svg onload=\"attack('{}')\"><a href=\"javascript:attack('{}')\">x</a></svg>",
    "address": "javascript:attack('{}')",
    "quotes": "\"'><body onload=attack('{}') autofocus onfocus=attack('{}') x='",
    "frame": "<iframe srcdoc=\"<script>parent.attack('{}')</script>\"></iframe>",
    "template": "${{attack('{}')}}{{{{constructor.constructor(\"attack('{}')\")()}}}}",
    "markdown": "[x](javascript:attack('{}')) ![x](x\"onerror=\"attack('{}'))",
    "ended": "</pre></textarea></title></style></script><script>attack('{}')</script>",
    "form": "<form action=/runs/r-1/cancel method=post><button autofocus>{}</button></form><base href=//evil.test/>",
}
FIELDS = (
    "agent", "agent description", "prompt", "status", "label name", "label value", "session", "output", "error",
    "run cost",
    "tool", "arguments", "question", "choice", "pending path", "node name", "node path", "node kind", "node status",
    "node text", "role", "content", "part", "reply", "call arguments", "result", "call error", "decision", "usage name",
    "delta", "diff name", "diff path", "diff first", "diff second", "session id", "session text", "memory", "memory id",
    "memory kind", "refusal",
)  # fmt: skip
WATCH = "window.attacked = []; window.attack = (field) => window.attacked.push(field);"


def _fill(server: PageServer, texts: dict[str, Any]) -> None:
    """Put a text into every field that is not chosen by the server itself."""
    server.agents = [{"name": texts["agent"], "description": texts["agent description"], "kind": "agent"}]
    pending = {"id": "p-1", "kind": "approval", "tool": texts["tool"], "arguments": {"a": texts["arguments"]}}
    question = {"id": "p-2", "kind": "question", "tool": "ask", "arguments": None, "text": texts["question"]}
    run = server.add(
        "r-1", agent=texts["agent"], prompt=texts["prompt"], status=texts["status"], session=texts["session"],
        labels={str(texts["label name"]): texts["label value"]}, output=texts["output"], cost=texts["run cost"],
        pending=[
            {**pending, "text": texts["prompt"], "answer": None, "path": texts["pending path"]},
            {**question, "answer": {"enum": [texts["choice"]]}, "path": texts["pending path"]},
        ],
    )  # fmt: skip
    run.nodes = [
        node(
            1, texts["node name"], 0, path=texts["node path"], kind=texts["node kind"], status=texts["node status"],
            text=texts["node text"], usage={str(texts["usage name"]): 1},
        )
    ]  # fmt: skip
    message = {"role": texts["role"], "content": texts["content"]}
    parts = {"role": texts["role"], "content": [{"text": texts["part"]}, {"kind": texts["part"]}]}
    run.calls[1] = {
        "messages": [message, parts], "reply": texts["reply"], "arguments": {"a": texts["call arguments"]},
        "result": texts["result"], "error": texts["call error"], "decision": texts["decision"],
    }  # fmt: skip
    server.add("r-2", prompt=texts["prompt"], status="Failed", error=texts["error"])
    live = server.add("r-3", status="running")
    live.nodes = [node(1, "model", 0, path="model")]
    sides = {"a": texts["diff first"], "b": texts["diff second"]}
    server.diff = {"rows": [{"kind": "changed", "path": texts["diff path"], "name": texts["diff name"], **sides}]}
    server.sessions = {"s-1": [{"role": "user", "content": texts["session text"]}]}
    server.session_names = {"s-1": texts["session id"]}
    server.memories = [{"id": texts["memory id"], "text": texts["memory"], "kind": texts["memory kind"]}]
    server.refusal = texts["refusal"]


PLACES = {  # where the fields are, and what there shows that all is drawn
    "/runs": "a.row",
    "/runs/r-1/1": ".message",
    "/runs/r-2": ".failed-box",
    "/runs/r-3": ".now",
    "/diff?a=r-1&b=r-2": ".diff-row",
    "/sessions": "a.row.session",
    "/sessions/s-1": ".message",
    "/memory": ".memory",
    "/runs/none": ".empty",
}


def _visit(page: Page, server: PageServer, texts: dict[str, Any]) -> str:
    """Visit every place, use what there is to use, and return all that was shown."""
    shown: list[str] = []
    for place, mark in PLACES.items():
        page.goto(f"{server.url}/#{place}")
        if place == "/runs/r-3":
            page.get_by_role("treeitem").wait_for()
            while len(server.streams) < 2:  # that of the first run, and now that of this one
                page.wait_for_timeout(5)
            server.emit(server.runs["r-3"], "Delta", {"path": "model", "text": texts["delta"]})
        page.locator(mark).first.wait_for(state="attached")
        if place == "/runs/r-1/1":
            page.get_by_role("button", name="Modify …").click()
        links = page.eval_on_selector_all("a", "all => all.map(each => each.getAttribute('href'))")
        assert all(link.startswith(("#", "/runs/r-")) for link in links), links
        drawn = (
            "script:not([src]), img, iframe, object, embed, base, form[action], svg a, body [onload], body [onerror]"
        )
        assert page.locator(drawn).count() == 0, place
        values = page.eval_on_selector_all("textarea, option", "all => all.map(each => each.value + each.textContent)")
        shown += [page.locator("body").inner_text(), *values]
    return "\n".join(shown)


@pytest.fixture
def open_page(browser: Browser, server: PageServer) -> Any:
    """A page without its content security policy, so that nothing but its own care protects it."""
    context = browser.new_context(bypass_csp=True)
    context.add_init_script(WATCH)
    opened = context.new_page()
    opened.set_default_timeout(5_000)
    opened.on("dialog", lambda dialog: pytest.fail(dialog.message))
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    requested: list[str] = []
    opened.on("request", lambda request: requested.append(request.url))
    yield opened
    assert not faults
    assert not [url for url in requested if not url.startswith(server.url + "/")]
    context.close()


@pytest.mark.parametrize("name", PAYLOADS)
def test_no_field_runs_what_is_in_it(open_page: Page, server: PageServer, name: str) -> None:
    texts = {field: PAYLOADS[name].replace("{}", field).replace("{{", "{").replace("}}", "}") for field in FIELDS}
    _fill(server, texts)
    shown = _visit(open_page, server, texts)
    assert open_page.evaluate("window.attacked") == []
    unseen = {"agent description", "node status", "node kind", "run cost", "pending path", "status"}
    lost = [field for field in FIELDS if field not in shown and field not in unseen]
    assert not lost, "these fields are not tested, as they are not shown"
    assert server.posts == []


def test_an_object_in_the_place_of_a_text_is_no_element(open_page: Page, server: PageServer) -> None:
    """Preact would draw what looks like an element of its own, if it came from JSON unseen."""
    markup = {"__html": "<img src=x onerror=attack('element')>"}
    element = {"type": "div", "props": {"dangerouslySetInnerHTML": markup}, "key": None, "ref": None, "__k": None}
    fields = (
        "output",
        "arguments",
        "content",
        "reply",
        "result",
        "decision",
        "diff first",
        "diff second",
        "session text",
    )
    texts: dict[str, Any] = {field: "x " + field for field in FIELDS} | dict.fromkeys(fields, element)
    _fill(server, texts)
    _visit(open_page, server, texts)
    assert open_page.evaluate("window.attacked") == []


@pytest.mark.parametrize("sign", ["\u202e", "\u200b", "\u2066", "\x1b", "\x00", "\u00ad", "\ufeff", "\x9b", "\u2028"])
def test_characters_that_hide_or_turn_others_are_shown_as_codes(page: Page, server: PageServer, sign: str) -> None:
    texts: dict[str, Any] = {field: f"{field}{sign}end" for field in FIELDS}
    _fill(server, texts)
    page.goto(f"{server.url}/#/runs/r-1/1")
    page.locator(".message").first.wait_for()
    shown = page.locator("body").inner_text()
    assert sign not in shown.replace("\n", "")
    assert f"arguments\\u{ord(sign):04x}end" in shown.replace("\\\\u", "\\u")


def test_the_policy_alone_stops_what_would_be_drawn_as_markup(browser: Browser, server: PageServer) -> None:
    """Without the policy the same attacks work, so the tests above can fail."""
    for bypass in (False, True):
        context = browser.new_context(bypass_csp=bypass)
        context.add_init_script(WATCH)
        opened = context.new_page()
        opened.goto(server.url)
        opened.locator(".bar").wait_for()
        opened.evaluate(
            "(texts) => texts.forEach((text) => document.body.insertAdjacentHTML('beforeend', text))",
            [text.replace("{}", name) for name, text in PAYLOADS.items()],
        )
        opened.evaluate("new Promise((done) => setTimeout(done, 100))")
        attacked = opened.evaluate("window.attacked")
        assert {"image", "frame"} <= set(attacked) if bypass else attacked == []
        context.close()
