"""What people do on the page, with the real server and real runs behind it."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec import Struct, to_builtins
from playwright.sync_api import Browser, Page, expect

from tests.samples import LONG, sample
from tests.serve.proxies import PROXIES, TlsProxy
from tests.serve.real_server import RealServer
from tests.serve.serving import TOKEN
from ziggurat import Agent, Message, Runnable, ToolCall, tool
from ziggurat.flows import ask, continue_as_new, first, flow, step
from ziggurat.memory import Remembering, everything_said
from ziggurat.messages import tool_call
from ziggurat.models import FunctionModel
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.testing import ScriptedModel, ScriptedReply

long = pytest.mark.skipif(not LONG, reason="a decision is the smoke test")


class Ticket(Struct):
    kind: Literal["refund", "other"]
    order: int
    urgent: bool = False
    share: float | None = None
    note: str = "none"
    tags: list[str] = []


ANSWERS: list[tuple[Any, dict[str, str], object]] = [
    (bool, {"": "No"}, False),
    (Literal[1, 2], {"": "2"}, 2),
    (int, {"Answer": "42"}, 42),
    (float, {"Answer": "0.5"}, 0.5),
    (str, {"Answer": "true"}, "true"),
    (date, {"Answer": "2026-02-03"}, "2026-02-03"),
    (int | None, {}, None),
    (list[int], {"Answer": "[1, 2]"}, [1, 2]),
    (Ticket, {"kind": "refund", "order": "7", "urgent": "Yes", "note": "", "tags": '["a"]'},
     {"kind": "refund", "order": 7, "urgent": True, "share": None, "note": "", "tags": ["a"]}),
]  # fmt: skip
"""Types of answers, what a person enters in which field (or the button without one), and the answer."""


class World:
    """The agents that are served, and what they have done."""

    def __init__(self, folder: Path) -> None:
        self.acts: list[int] = []
        self.gate = asyncio.Event()
        self.folder = folder

    def create(self) -> ServedApp:
        @tool(effect="once", approval=True)
        def pay(amount: int) -> str:
            """Pay."""
            self.acts.append(amount)
            return f"paid {amount}"

        @flow
        async def book(city: str) -> str:
            return f"{city}: {await ask('Which seat?', str)}"

        @flow
        async def enquire(topic: str) -> list[Any]:
            asked = [await ask(f"Question {number}", kind) for number, (kind, *_) in enumerate(ANSWERS)]
            return [to_builtins(answer) for answer in asked]

        def answer(messages: list[Message]) -> str | ToolCall:
            return "All done." if messages[-1].tool_results else tool_call("pay", amount=3)

        remembering = Remembering(f"sqlite:///{self.folder / 'memory.db'}", "ann", remember=everything_said)

        @flow
        async def twice(text: str) -> str:
            if text == "once":
                await continue_as_new("twice")
            return text

        @step
        async def work() -> str:
            await self.gate.wait()
            return "worked"

        @flow
        async def beside(text: str) -> str:
            return await first(ask(f"Stop {text}?"), work())

        desk = Agent(FunctionModel(answer), name="desk", tools=[pay], middleware=[remembering])
        story: ScriptedReply = ["Once upon ", self.gate, "a time."]
        teller = Agent(ScriptedModel(story, "The end.", per_run=True), name="teller")
        broken = Agent(ScriptedModel(story, per_run=True), name="broken")  # has no reply to a message
        agents: list[Runnable[Any]] = [desk, teller, book, enquire, broken, twice, beside]
        return app(agents, token=TOKEN, proxies=["127.0.0.1"], store=f"sqlite:///{self.folder / 'runs.db'}")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(params=["http", *PROXIES] if LONG else ["http"])
def real_server(world: World, request: pytest.FixtureRequest) -> Iterator[RealServer]:
    server = RealServer(world.create)
    proxy = None if request.param == "http" else TlsProxy(request.param, server.port)
    server.public = "" if proxy is None else proxy.url
    yield server
    server.stop()
    if proxy is not None:
        proxy.stop()


@pytest.fixture
def open_page(browser: Browser, real_server: RealServer) -> Iterator[Page]:
    context = browser.new_context(ignore_https_errors=True)
    page = context.new_page()
    page.goto(real_server.login)
    page.get_by_role("heading", name="Runs").wait_for()
    yield page
    context.close()


def _start(page: Page, agent: str, prompt: str, session: str = "") -> str:
    page.get_by_role("button", name="New run").click()
    page.locator("select[name=agent]").select_option(agent)
    page.get_by_label("Prompt", exact=True).fill(prompt)
    page.locator("input[name=session]").fill(session)
    page.get_by_role("button", name="Start").click()
    expect(page.get_by_role("heading", name=prompt)).to_be_visible()
    return str(page.url.rpartition("/")[2])


def _approve(page: Page) -> None:
    page.get_by_role("button", name="Approve").click()


def _modify(page: Page) -> None:
    page.get_by_role("button", name="Modify …").click()
    page.get_by_label("Arguments, as JSON").fill('{"amount": 1}')
    page.get_by_role("button", name="Approve as changed").click()


def _deny(page: Page) -> None:
    page.get_by_role("button", name="Deny …").click()
    page.get_by_label("Reason").fill("too much")
    page.get_by_role("button", name="Deny", exact=True).click()


@pytest.mark.parametrize(("decide", "acts"), sample([(_approve, [3]), (_modify, [1]), (_deny, [])], 1))
def test_a_call_is_decided(open_page: Page, world: World, decide: Callable[[Page], None], acts: list[int]) -> None:
    page = open_page
    _start(page, "desk", "Pay the bill")
    expect(page.get_by_role("article", name="Approval")).to_be_visible()
    decide(page)
    expect(page.get_by_label("Output")).to_have_text("All done.")
    assert world.acts == acts
    page.locator(".node:has(b:text-is('pay'))").click()
    shown = page.get_by_label("Call", exact=True)
    expect(shown).to_contain_text("too much" if not acts else f"paid {acts[0]}")
    page.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Replayed from the record")).to_be_visible()
    assert world.acts == acts


@long
def test_a_browser_goes_on_over_a_restart_of_the_server(
    browser: Browser, world: World, real_server: RealServer
) -> None:
    first = real_server
    page = browser.new_context(ignore_https_errors=True).new_page()
    page.goto(first.login)
    _start(page, "desk", "Pay the bill")
    expect(page.get_by_role("article", name="Approval")).to_be_visible()
    first.stop()
    expect(page.get_by_text("connecting again")).to_be_visible()
    second = RealServer(world.create, first.port)
    expect(page.get_by_text("connecting again")).to_have_count(0)
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Output")).to_have_text("All done.")
    assert world.acts == [3]
    page.reload()
    expect(page.get_by_label("Output")).to_have_text("All done.")
    page.context.close()
    second.stop()


@long
def test_a_question_is_answered(open_page: Page) -> None:
    page = open_page
    _start(page, "book", "Oslo")
    page.get_by_text("Parts", exact=True).click()
    picture = page.get_by_alt_text("What it is made of")
    expect(picture).to_be_visible()
    page.wait_for_function("document.querySelector('.standing img').naturalWidth > 50")
    page.get_by_role("button", name="Answer …").click()
    page.get_by_label("Answer").fill("12a")
    page.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_text("Completed", exact=True)).to_be_visible()


@long
def test_a_run_that_continues_as_new_links_to_the_next(open_page: Page) -> None:
    page = open_page
    run_id = _start(page, "twice", "once")
    page.get_by_role("link", name=f"{run_id}~2").click()
    expect(page.get_by_label("Output")).to_have_text("twice")


@long
@pytest.mark.parametrize("answered", [True, False])
def test_a_question_beside_work_is_answered_while_it_works(
    answered: bool, open_page: Page, world: World, real_server: RealServer
) -> None:
    page = open_page
    run_id = _start(page, "beside", "the work")
    question = page.get_by_role("article", name="Question").filter(has_text="Stop the work?")
    expect(question).to_be_visible()
    assert real_server.get(f"/runs/{run_id}")["status"] == "running"
    if answered:
        question.get_by_role("button", name="Answer …").click()
        question.get_by_label("Answer").fill("yes")
        question.get_by_role("button", name="Answer", exact=True).click()
    else:
        real_server.loop.call_soon_threadsafe(world.gate.set)
    expect(page.get_by_label("Output")).to_have_text("yes" if answered else "worked")
    expect(question).to_have_count(0)


@long
def test_a_question_is_answered_with_its_type(open_page: Page, real_server: RealServer) -> None:
    page = open_page
    run_id = _start(page, "enquire", "Ask")
    for number, (_, entered, _) in enumerate(ANSWERS):
        question = page.get_by_role("article", name="Question").filter(has_text=f"Question {number}")
        if "" in entered:
            question.get_by_role("button", name=entered[""], exact=True).click()
            continue
        question.get_by_role("button", name="Answer …").click()
        for label, text in entered.items():
            field = question.get_by_label(label)
            if field.evaluate("element => element.tagName") == "SELECT":
                field.select_option(label=text)
            else:
                field.fill(text)
        question.get_by_role("button", name="Answer", exact=True).click()
    expect(page.get_by_text("Completed", exact=True)).to_be_visible()
    assert real_server.get(f"/runs/{run_id}")["output"] == [answer for _, _, answer in ANSWERS]


@long
def test_a_run_is_watched(open_page: Page, world: World, real_server: RealServer) -> None:
    page = open_page
    run_id = _start(page, "teller", "Tell a story")
    expect(page.locator(".now")).to_contain_text("Once upon")
    real_server.loop.call_soon_threadsafe(world.gate.set)
    expect(page.get_by_label("Output")).to_have_text("Once upon a time.")
    assert real_server.get(f"/runs/{run_id}")["status"] == "Completed"


@long
def test_a_run_is_cancelled(open_page: Page) -> None:
    page = open_page
    _start(page, "teller", "Tell a story")
    expect(page.locator(".now")).to_contain_text("Once upon")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("Cancelled", exact=True)).to_be_visible()


@long
def test_a_run_is_forked_compared_and_found(open_page: Page, real_server: RealServer) -> None:
    page = open_page
    first = _start(page, "desk", "Pay the bill")
    _approve(page)
    expect(page.get_by_label("Output")).to_have_text("All done.")
    page.locator(".node:has(b:text-is('pay'))").click()
    page.get_by_role("button", name="Fork here").click()
    page.get_by_role("dialog").get_by_role("button", name="Fork").click()
    expect(page.get_by_text(first)).to_have_count(0)
    second = page.url.rpartition("/")[2]
    assert second != first
    page.goto(f"{real_server.page}/#/diff?a={first}&b={second}")
    expect(page.get_by_text("calls differ")).to_be_visible()
    page.goto(f"{real_server.page}/#/runs?search=bill")
    expect(page.locator("a.row")).to_have_count(2)
    page.goto(f"{real_server.page}/#/runs?search=nothing")
    expect(page.get_by_text("No run matches")).to_be_visible()


@long
def test_a_run_is_told_something_and_its_session_is_looked_through(
    open_page: Page, world: World, real_server: RealServer
) -> None:
    page = open_page
    run_id = _start(page, "teller", "Tell a story", session="ann")
    expect(page.locator(".now")).to_contain_text("Once upon")
    page.get_by_role("button", name="Message").click()
    page.get_by_label("Message to the run").fill("Make it short.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    real_server.loop.call_soon_threadsafe(world.gate.set)
    expect(page.get_by_label("Output")).to_have_text("The end.")
    with page.expect_download() as download:
        page.get_by_role("link", name="Record").click()
    assert "Make it short." in download.value.path().read_text(encoding="utf-8")
    page.get_by_role("link", name="ann").click()
    expect(page.get_by_label("user").first).to_have_text("Tell a story")
    page.get_by_role("link", name="Runs of this session").click()
    expect(page.locator("a.row")).to_have_count(1)
    expect(page.locator("a.row")).to_contain_text(run_id)


@long
def test_what_an_agent_remembers_is_looked_through(open_page: Page) -> None:
    page = open_page
    _start(page, "desk", "Pay the bill of the boat")
    _approve(page)
    expect(page.get_by_label("Output")).to_have_text("All done.")
    page.get_by_role("link", name="Memory").click()
    expect(page.locator(".memory").first).to_contain_text("ann")
    page.get_by_label("Search in memory").fill("boat")
    expect(page.locator(".memory")).to_have_count(1)
    page.get_by_label("Search in memory").fill("zebra")
    expect(page.get_by_text("No memory matches.")).to_be_visible()


KILLED = """
import asyncio, os, signal, sys
from ziggurat import Agent
from ziggurat.models import FunctionModel

agent = Agent(FunctionModel(lambda messages: os.kill(os.getpid(), signal.SIGKILL)), name="desk", store=sys.argv[1])
asyncio.run(agent.run("Pay the bill", run_id="lost"))
"""


@long
def test_a_run_whose_process_was_killed_is_resumed(open_page: Page, world: World, real_server: RealServer) -> None:
    page = open_page
    done = subprocess.run([sys.executable, "-c", KILLED, f"sqlite:///{world.folder / 'runs.db'}"], check=False)
    assert done.returncode == -signal.SIGKILL
    assert real_server.get("/runs/lost")["driven"] is False
    expect(page.locator("a.row .status.stopped")).to_be_visible()
    page.locator("a.row").click()
    expect(page.get_by_text("interrupted", exact=True)).to_be_visible()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_label("Output")).to_have_text("All done.")
    assert world.acts == [3]


@long
def test_a_run_that_a_mistake_has_interrupted_is_shown_so(
    open_page: Page, world: World, real_server: RealServer
) -> None:
    page = open_page
    _start(page, "broken", "Tell a story")
    expect(page.locator(".now")).to_contain_text("Once upon")
    page.get_by_role("button", name="Message").click()
    page.get_by_label("Message to the run").fill("Make it short.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    real_server.loop.call_soon_threadsafe(world.gate.set)
    expect(page.get_by_text("interrupted", exact=True)).to_be_visible()
    expect(page.get_by_text("connecting again")).to_have_count(0)
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
