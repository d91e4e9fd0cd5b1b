"""Log records of runs: which run they are of, and as lines of JSON."""

import io
import json
import logging
import logging.config
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider

from ziggurat import Agent
from ziggurat.flows import flow, step
from ziggurat.messages import tool_call
from ziggurat.observe import JsonFormatter, OpenTelemetry, RunFilter
from ziggurat.testing import ScriptedModel

own = logging.getLogger("tests.own")
CONFIGURATION: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {"run": {"()": "ziggurat.observe.RunFilter"}},
    "formatters": {"json": {"()": "ziggurat.observe.JsonFormatter"}},
    "handlers": {"out": {"class": "logging.StreamHandler", "filters": ["run"], "formatter": "json"}},
    "loggers": {"tests.own": {"level": "INFO", "handlers": ["out"], "propagate": False}},
}


@pytest.fixture
def lines() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    stream = io.StringIO()
    handler = CONFIGURATION["handlers"]["out"] | {"stream": stream}
    logging.config.dictConfig(CONFIGURATION | {"handlers": {"out": handler}})
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    own.handlers.clear()


def in_thread(item: str) -> str:
    """Look."""
    own.info("looked at %s", item)
    return "nothing"


async def in_loop(item: str) -> str:
    """Look."""
    own.info("looked at %s", item)
    return "nothing"


@pytest.mark.parametrize("look", [in_thread, in_loop])
def test_a_record_says_of_which_run_it_is(look: Any, lines: Callable[[], list[dict[str, Any]]]) -> None:
    agent = Agent(
        ScriptedModel(tool_call(look.__name__, item="tea"), "Done."),
        name="reader",
        tools=[look],
        middleware=[OpenTelemetry(tracer_provider=TracerProvider())],
    )
    run = agent.run_sync("Look.", run_id="r-1")
    own.warning("outside")
    [inside, outside] = lines()
    assert run.text == "Done."
    assert inside["message"] == "looked at tea"
    assert (inside["run_id"], inside["agent"]) == ("r-1", "reader")
    assert inside["path"] == f"reader/step-1/tool-1:{look.__name__}"
    assert len(inside["trace_id"]) == 32
    assert len(inside["span_id"]) == 16
    assert outside.keys() == {"time", "level", "logger", "message"}
    assert (outside["level"], outside["logger"]) == ("WARNING", "tests.own")


def test_in_the_steps_of_flows(lines: Callable[[], list[dict[str, Any]]]) -> None:
    @step
    async def load() -> int:
        own.info("loading")
        return 1

    @flow
    async def nightly(day: int) -> int:
        return await load()

    nightly.run_sync(1, run_id="r-2")
    assert [(line["run_id"], line["path"]) for line in lines()] == [("r-2", "nightly/load")]


def test_errors_extra_values_and_what_has_no_json_form(lines: Callable[[], list[dict[str, Any]]]) -> None:
    try:
        raise ValueError("no\nway")
    except ValueError:
        own.exception("failed", extra={"amount": 3, "thing": object, "path": "mine"})
    own.info("stacked", stack_info=True)
    [failed, stacked] = lines()
    assert failed["error"].endswith("ValueError: no\nway")
    assert (failed["amount"], failed["thing"], failed["path"]) == (3, "<class 'object'>", "mine")
    assert "test_errors_extra_values" in stacked["stack"]


def test_a_formatter_without_the_filter_writes_what_there_is() -> None:
    record = logging.LogRecord("a", logging.INFO, "f.py", 1, "%s\ud800", ("x",), None)
    written = json.loads(JsonFormatter().format(record))
    assert written["message"].startswith("x")
    assert "run_id" not in written
    assert RunFilter().filter(record)
    assert not record.run_id  # type: ignore[attr-defined]


def test_the_records_of_failures_say_of_which_run_they_are(caplog: pytest.LogCaptureFixture) -> None:
    def slip() -> str:
        """Slip."""
        raise KeyError("tea")

    agent = Agent(ScriptedModel(tool_call("slip"), ValueError("gone")), name="reader", tools=[slip])
    agent.run_sync("Look.", run_id="r-3")
    written = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [(line["failure"], line["run_id"], line["agent"], line["path"]) for line in written] == [
        ("KeyError", "r-3", "reader", "reader/step-1/tool-1:slip"),
        ("ValueError", "r-3", "reader", "reader"),
    ]
