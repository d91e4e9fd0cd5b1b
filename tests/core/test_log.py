"""Lines of the log: what others wrote cannot control a terminal, forge a line or hide in one."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

import ziggurat
from ziggurat import Agent
from ziggurat.core.failures import log_failure
from ziggurat.core.log import logger
from ziggurat.core.visible import is_hidden
from ziggurat.messages import tool_call
from ziggurat.middleware import Logging
from ziggurat.observe import JsonFormatter, RunFilter
from ziggurat.testing import ScriptedModel

HOSTILE = [
    "404\x1b]0;owned\x07\x1b[2J",
    "one\nCRITICAL:root:admin logged in",
    "one\r\nCRITICAL:root:admin",
    "one\u2028CRITICAL:root:admin\x85CRITICAL:root:admin\x0bCRITICAL:root:admin",
    "pay \u202eeno\u202c \u2066me\u2069 a\u200bb \x9b2J",
    "half \ud800",
]


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RunFilter())
    handler.setFormatter(logging.Formatter("%(levelname)s %(run_id)s %(path)s %(message)s"))
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def check(text: str, records: int) -> None:
    written = text.removesuffix("\n").split("\n")
    assert not [each for each in "".join(written) if is_hidden(each)]
    assert len([line for line in written if not line.startswith("  ")]) == records


@pytest.mark.parametrize("text", HOSTILE)
def test_neither_messages_nor_tracebacks_hide_characters_or_forge_lines(text: str, lines: io.StringIO) -> None:
    logger.warning("the store says: %s", text)
    logger.warning(text)
    try:
        try:
            raise ValueError(text)
        except ValueError as cause:
            raise RuntimeError(f"{text} again") from cause
    except RuntimeError as error:
        error.add_note(text)
        logger.exception("a listener failed: %s", error)
        log_failure(f"the tool {text} failed", error, str)
        log_failure("the tool failed", error, lambda all_of: all_of.replace("again", "[redacted]"))
    check(lines.getvalue(), 5)


@pytest.mark.parametrize("text", HOSTILE[:-1])
async def test_tools_and_models_do_not_forge_lines(text: str, lines: io.StringIO) -> None:
    def fetch() -> str:
        """Fetch."""
        raise ValueError(text)

    model = ScriptedModel(tool_call("fetch"), tool_call(f"{text}fetch"), "x")
    await Agent(model, tools=[fetch], middleware=[Logging(logger=logging.getLogger("tests.own"))]).run("go")
    check(lines.getvalue(), 1)


@pytest.mark.parametrize("text", HOSTILE[:-1])
async def test_a_tool_that_a_model_names_has_one_line_in_a_logger_of_the_caller(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tests.own")
    agent = Agent(ScriptedModel(tool_call(text), "x"), middleware=[Logging(logger=logging.getLogger("tests.own"))])
    await agent.run("go")
    said = [record.getMessage() for record in caplog.records if record.name == "tests.own"]
    assert any("not_found" in line for line in said)
    assert not [each for line in said for each in line if is_hidden(each)]


def test_what_is_harmless_is_kept_for_handlers_that_group_by_message(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("such as it is")
    logger.warning("%s failed: %s", "the store", error, exc_info=error)
    (record,) = caplog.records
    assert (record.msg, record.args) == ("%s failed: %s", ("the store", error))
    assert record.exc_info is not None
    assert record.exc_info[1] is error


def test_an_error_without_a_text_is_logged(lines: io.StringIO) -> None:
    log_failure("it failed", Mute(), str)
    check(lines.getvalue(), 1)


@pytest.mark.parametrize("text", HOSTILE[:-1])
def test_lines_of_json_have_no_hidden_characters_and_mean_the_same(text: str) -> None:
    record = logging.LogRecord("tests.own", logging.INFO, "", 0, "%s", (text,), None)
    line = JsonFormatter().format(record)
    assert not [each for each in line if is_hidden(each)]
    assert json.loads(line)["message"] == text


def test_every_module_logs_here() -> None:
    folder = Path(ziggurat.__file__).parent
    others = {path.name for path in folder.rglob("*.py") if "getLogger(" in path.read_text()}
    assert others == {"log.py", "terminal.py"}  # middleware/log.py has a logger for calls, terminal.py a handler
