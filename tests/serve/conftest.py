"""One browser and one server for the tests of a module; each test has a page of its own, with its own cookies."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.serve.browser import MISSING, find_browser
from tests.serve.page_server import PageServer

expect.set_options(timeout=15_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--host-resolver-rules=MAP evil.test 127.0.0.1"]
        )
        yield started
        started.close()


@pytest.fixture(scope="module")
def page_server() -> Iterator[PageServer]:
    started = PageServer()
    yield started
    started.stop()


@pytest.fixture
def server(page_server: PageServer) -> PageServer:
    """The server of the module, with nothing in it."""
    page_server.clear()
    return page_server


@pytest.fixture
def page(browser: Browser, server: PageServer) -> Iterator[Page]:
    """A page that has no error and breaks no rule of its content security policy."""
    context = browser.new_context(viewport={"width": 1280, "height": 820})
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda message: faults.append(message.text) if "Content Security" in message.text else None)
    yield opened
    context.close()
    assert not faults
