"""Agents against every quirk of the fake provider, on every wire: typed errors, no crash, nothing run that was cut."""

import pytest

from tests.provider import bad_arguments, cut, parsed, quirks
from tests.provider.reply_quirks import BAD_ARGUMENTS
from tests.samples import pairs
from ziggurat import Agent, AgentRun
from ziggurat.fake_provider import FakeProvider, Quirk
from ziggurat.messages import tool_call
from ziggurat.models.http import providers
from ziggurat.providers import Limits
from ziggurat.stops import Completed, Failed, Incomplete
from ziggurat.testing import ScriptedReply
from ziggurat.testing.server.loopback import ReceivedRequest

Done = tuple[str, int, int] | tuple[str, int, int, str]

WIRES = {"chat": providers.openai, "responses": providers.openai_responses, "messages": providers.anthropic}
BOTH = [("add", 1, 2, "a rather long note"), ("sub", 5, 4)]

NO_DIFFERENCE = {
    "bom comments content_parts content_type cr crlf event_ids fragment gzip_body interim interleaved mixed_line_ends",
    "multi_line no_event_names no_finish no_ids no_index no_space no_usage negative_usage object_arguments pace",
    "plain_for_stream repeated_ids repeated_names reused_ids same_ids split stale unknown_events unknown_fields",
    "unknown_finish until_close usage_everywhere whole_calls",
}
TYPED_ERROR = {
    "burst context_overflow cut deep_body empty_body error_event gzip_bomb half_json hang_up html not_http",
    "rate_limited redirect reset slow_headers stall status wrong_types",
}
TOLD_TO_THE_MODEL = {"bad_arguments empty_name huge_arguments null_arguments unknown_tool"}
CUT_SHORT = {"out_of_tokens"}
"""Quirks whose replies are incomplete, so that the run is, too."""
SETTINGS = {
    "cut": "300",
    "gzip_bomb": "300",
    "huge_arguments": "1",
    "big_text": "1",
    "many_calls": "1000",
    "pace": "0",
    "redirect": "http://127.0.0.1:9/",
    "split": "10+300",
    "stall": "200",
    "status": "500",
}


def words(lines: set[str]) -> set[str]:
    return {word for line in lines for word in line.split()}


NO_END = ("slow_headers", "stall")
"""The server is silent until the client has had enough; with all others the client has all the time there is."""


async def run(
    wire: str, stream: bool, *used: Quirk, idle: float | None = None
) -> tuple[AgentRun, list[Done], list[ReceivedRequest]]:
    """Let an agent run against a provider with these quirks; returns the run, what tools did, and the requests."""
    done: list[Done] = []

    def add(a: int, b: int, note: str = "") -> int:
        """Add."""
        done.append(("add", a, b, note))
        return a + b

    def sub(a: int, b: int) -> int:
        """Subtract."""
        done.append(("sub", a, b))
        return a - b

    calls: ScriptedReply = [
        "Let me ädd. ",
        tool_call("add", a=1, b=2, note="a rather long note"),
        tool_call("sub", a=5, b=4),
    ]
    async with FakeProvider(calls, always="Done.", quirks=used) as server:
        limits = Limits(connect=None, idle=idle, total=None)
        async with WIRES[wire]("m-1", key="sk-hidden", base_url=server.url + "/v1", limits=limits) as model:
            agent = Agent(model, tools=[add, sub], max_steps=4)
            result = await agent.run("go", listeners=[lambda event: None] if stream else [])
        return result, done, list(server.requests)


@pytest.mark.parametrize(("name", "wire", "stream"), pairs([entry.name for entry in quirks()], WIRES, [False, True]))
async def test_an_agent_meets_every_quirk(name: str, wire: str, stream: bool) -> None:
    quirk = parsed(name + (f"={SETTINGS[name]}" if name in SETTINGS else ""))
    idle = 0.2 if name in NO_END else None
    result, done, requests = await run(wire, stream, quirk, idle=idle)
    kind = result.stop.kind if isinstance(result.stop, Failed) else None
    ends = Incomplete if name in CUT_SHORT else Completed
    assert isinstance(result.stop, ends) or kind in ("ModelError", "StreamInterrupted", "ContextOverflow")
    assert "sk-hidden" not in str(result.stop)
    assert len(requests) <= 2
    if name != "many_calls":
        assert [each for each in done if each not in BOTH] == []
        assert len(done) <= 2
    if name in words(NO_DIFFERENCE):
        assert (kind, sorted(done)) == (None, BOTH)
        assert result.text.startswith("Done.")
    elif name in words(TYPED_ERROR):
        assert (kind is not None, done) == (True, [])
    elif name in words(TOLD_TO_THE_MODEL):
        assert (kind, done, result.failed_tool_calls) == (None, [], 2)


def test_the_groups_name_quirks_that_there_are() -> None:
    known = {entry.name for entry in quirks()}
    assert words(NO_DIFFERENCE | TYPED_ERROR | TOLD_TO_THE_MODEL) <= known
    assert set(SETTINGS) <= known


HARMLESS = {"extra_keys", "duplicate_keys", "quoted", "zero_byte", "surrogate"}


@pytest.mark.parametrize("form", BAD_ARGUMENTS)
@pytest.mark.parametrize("wire", WIRES)
async def test_no_bad_arguments_are_run(wire: str, form: str) -> None:
    for stream in (False, True):
        result, done, _ = await run(wire, stream, bad_arguments(form).first(1))
        assert isinstance(result.stop, (Completed, Failed))
        if form not in HARMLESS:
            assert done == []
        assert all(each in BOTH for each in done)


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("clean", [False, True])
async def test_nothing_is_finished_or_run_of_a_stream_that_is_cut_anywhere(wire: str, clean: bool) -> None:
    async def check() -> int:
        at = 0
        while True:
            result, done, _ = await run(wire, True, cut(at, clean=clean))
            if not isinstance(result.stop, Failed):
                return at
            assert (result.stop.kind in ("StreamInterrupted", "ModelError"), done) == (True, []), at
            at += 97

    assert await check() > 1000
