"""Servers that die, hang, lie or attack: one typed error each, bounded, and the next call works."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.mcp.serving import PROGRAM, http, stdio
from tests.mcp.test_calls import connected
from tests.samples import LONG
from ziggurat import Timeout, ToolError
from ziggurat.mcp import McpClient, mcp
from ziggurat.mcp.wire import ServerGone

ROUNDS = 100 if LONG else 4


def children() -> set[int]:
    """Return the processes that this one has started and that have not been reaped."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(status.parent.name))
    return found


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


async def left(before: set[int]) -> set[int]:
    """Return the processes that are left, once those that were killed have been reaped."""
    for _ in range(200_000):
        if not (found := children() - before):
            return set()
        await asyncio.sleep(0)
    return found


async def has_ended(pid: int) -> bool:
    """Return whether a process that was killed has ended, for which it is given a moment."""
    for _ in range(200_000):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        await asyncio.sleep(0)
    return False


async def works(server: McpClient) -> bool:
    return (await server.call("echo", {"text": "a"})).text == "a"


async def test_a_process_that_dies_in_a_call_costs_one_error_and_the_next_call_works(tmp_path: Path) -> None:
    before, log = children(), tmp_path / "log"
    server = stdio(f"log={log}")
    for _ in range(ROUNDS):
        with pytest.raises(ServerGone) as died:
            await server.call("die")
        assert died.value.kind == "interrupted"
        assert await works(server)
    await server.close()
    assert log.read_text().splitlines().count("die") == ROUNDS  # none was made twice
    assert not await left(before)


async def test_a_process_that_dies_fails_all_calls_in_progress() -> None:
    async with stdio() as server:
        calls = [server.call("silent") for _ in range(5)]
        results = await asyncio.gather(*calls, server.call("die"), return_exceptions=True)
        assert {type(each) for each in results} == {ServerGone}
        assert await works(server)


async def test_the_end_of_a_process_is_told_with_its_code_and_its_last_words() -> None:
    async with stdio("notice=ready") as server:
        for words, told in (("one\nmy last words\n", "my last words"), ("", None), ("x" * 5_000, "x" * 300)):
            with pytest.raises(ServerGone, match="exit code 3") as died:
                await server.call("die", {"words": words})
            text = str(died.value)
            assert text.partition("it wrote last: ")[2] == (told or "")


async def test_a_server_that_fails_to_start_says_why_once(caplog: pytest.LogCaptureFixture) -> None:
    before = children()
    server = mcp([sys.executable, "-c", "raise SystemExit('no key is set')"])
    for _ in range(3):
        with pytest.raises(ServerGone, match=r"exit code 1\); it wrote last: no key is set"):
            await server.tools()
    await server.close()
    assert "no key is set" not in caplog.text
    assert not await left(before)


@pytest.mark.skipif(not hasattr(os, "waitid"), reason="a process cannot be waited for without reaping it")
@pytest.mark.parametrize("turns", range(12))
async def test_a_server_that_ends_while_it_is_started_says_why(turns: int) -> None:
    before = children()
    server = mcp(["sh", "-c", "echo no key is set >&2; exit 1"])
    asked = asyncio.ensure_future(server.tools())
    for _ in range(turns):
        await asyncio.sleep(0)
    for begun in children() - before:  # the event loop stands still until the process has ended
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, begun, os.WEXITED | os.WNOWAIT)
    with pytest.raises(ServerGone, match=r"exit code 1\); it wrote last: no key is set"):
        await asked
    await server.close()


async def test_calls_of_a_server_that_is_closed_are_told_so() -> None:
    server = stdio()
    await server.tools()
    call = asyncio.ensure_future(server.call("silent"))
    await asyncio.sleep(0)
    await server.close()
    with pytest.raises(ServerGone, match="was closed"):
        await call


async def test_a_process_that_hangs_is_started_again() -> None:
    before = children()
    async with stdio(timeout=0.5) as server:
        with pytest.raises(Timeout):
            await server.call("hang")
        assert await works(server)
    assert not await left(before)


async def test_a_session_that_was_forgotten_costs_nothing() -> None:
    async with http(era_="legacy") as (behind, server):
        for _ in range(ROUNDS):
            assert await works(server)
            behind.forget()
        assert await works(server)
        assert [message.get("method") for _, _, message in behind.requests].count("initialize") == ROUNDS + 1


async def test_a_session_that_is_lost_fails_no_call_beside_it() -> None:
    async with http(era_="legacy") as (behind, server):
        for _ in range(ROUNDS):
            assert await works(server)
            behind.forget()
            assert all(await asyncio.gather(*(works(server) for _ in range(20))))


async def test_a_client_is_used_and_closed_from_any_task() -> None:
    """Clients are entered in one task, used in others that end, and left in another, in any order."""
    before, tasks, servers = children(), asyncio.all_tasks(), [stdio(name=f"s{number}") for number in range(3)]

    async def enter(server: McpClient) -> None:
        await server.__aenter__()

    for server in servers:
        await asyncio.create_task(enter(server))
    assert all(await asyncio.gather(*(asyncio.create_task(works(server)) for server in servers * 3)))
    for server in (servers[1], servers[0], servers[2]):
        await asyncio.create_task(server.close())
    assert asyncio.all_tasks() == tasks
    assert not await left(before)


@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_a_failure_beside_a_call_leaves_the_connection(kind: str) -> None:
    async def fail() -> None:
        raise LookupError

    async with connected(kind, "modern") as server:
        assert await works(server)
        with pytest.raises(ExceptionGroup) as failed:
            async with asyncio.TaskGroup() as group:
                group.create_task(server.call("silent"))
                group.create_task(fail())
        assert [type(each) for each in failed.value.exceptions] == [LookupError]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await server.call("silent")
        assert await works(server)


async def test_the_processes_of_a_server_end_with_it(tmp_path: Path) -> None:
    """A server that is started by a shell or by npx is not the only process."""
    note = tmp_path / "pid"
    script = f"sleep 1000 & echo $! > {note}; exec {sys.executable} {PROGRAM}"
    for close in (True, False):
        async with mcp(["sh", "-c", script], name="test") as server:
            pid = int(note.read_text())
            if not close:
                with pytest.raises(ServerGone):
                    await server.call("die")
        assert await has_ended(pid)


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_server_that_was_started_again_is_asked_again(era: str) -> None:
    async with http(era_=era) as (behind, server):
        for _ in range(ROUNDS):
            assert await works(server)
            await behind.stop()
            with pytest.raises(ToolError) as refused:
                await server.call("echo", {"text": "a"})
            assert refused.value.kind in ("transient", "interrupted")
            behind.sessions.clear()
            await behind.start()
            assert await works(server)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("cut", ["head", "body", "stream", "html", "500", "redirect"])
async def test_a_reply_that_is_broken_costs_one_error(era: str, cut: str) -> None:
    async with http(era_=era) as (behind, server):
        assert await works(server)
        behind.cut = cut
        with pytest.raises(ToolError):
            await server.call("echo", {"text": "a"})
        assert await works(server)


HOSTILE = {
    "huge": ({"size": 40 << 20}, ServerGone),
    "endless": ({}, ServerGone),
    "chatter": ({}, ServerGone),
    "wrong_id": ({}, Timeout),
    "half": ({}, ToolError),
}


@pytest.mark.parametrize("tool", HOSTILE)
async def test_hostile_processes_are_bounded(tool: str) -> None:
    before = children()
    arguments, kind = HOSTILE[tool]
    async with stdio(timeout=0.5 if kind is Timeout else 20) as server:
        await server.tools()
        with pytest.raises(kind):
            await server.call(tool, arguments)
        assert await works(server)
    assert not await left(before)


@pytest.mark.parametrize("tool", ["huge", "endless", *(["chatter"] if LONG else [])])
async def test_hostile_replies_are_bounded(tool: str) -> None:
    arguments, _ = HOSTILE[tool]
    async with http(timeout=20) as (_, server):
        with pytest.raises(ToolError):
            await server.call(tool, arguments)
        assert await works(server)


async def test_what_is_no_message_is_passed_over() -> None:
    async with stdio() as server:
        assert (await server.call("garbage")).text == "garbage"
        assert (await server.call("flood", {"count": 500})).text == "flood"


@pytest.mark.parametrize("probe", ["exit", "silent"])
async def test_a_server_of_the_older_era_that_dislikes_the_newer_one_is_asked_in_its_own(
    probe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if probe == "silent":  # one that ends is given the time that its start takes
        monkeypatch.setattr("ziggurat.mcp.connection._PROBE", 0.5)
    async with stdio("era=legacy", f"probe={probe}") as server:
        assert await works(server)


async def test_a_server_that_cannot_be_started_or_reached_says_so() -> None:
    for server in (mcp("/no/such/program"), mcp("http://127.0.0.1:9/mcp"), mcp("python -c 1")):
        with pytest.raises(ToolError, match=server.name):
            await server.tools()
        await server.close()


async def test_cancelled_calls_leave_nothing_behind() -> None:
    """Cancel calls of many servers at every moment: no tasks, descriptors or processes are left."""
    before, tasks, open_before = children(), asyncio.all_tasks(), descriptors()
    servers = [stdio() for _ in range(20 if LONG else 3)]
    for turns in range(0, 60, 1 if LONG else 9):
        calls = [asyncio.ensure_future(server.call("slow", {"seconds": 30})) for server in servers]
        for _ in range(turns * turns):
            await asyncio.sleep(0)
        for call in calls:
            call.cancel()
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {asyncio.CancelledError}
    assert all(await asyncio.gather(*map(works, servers)))
    await asyncio.gather(*(server.close() for server in servers))
    assert not await left(before)
    assert asyncio.all_tasks() == tasks
    assert descriptors() <= open_before + 1


def test_the_end_of_an_event_loop_ends_the_processes() -> None:
    server, before = stdio(), children()

    async def call() -> bool:
        return await works(server)

    assert asyncio.run(call())
    assert asyncio.run(call())  # in another loop
    assert not children() - before


async def test_an_unfinished_start_does_not_block_others() -> None:
    """The first call is cancelled while the server starts; another one waits for the same start."""
    server = stdio()
    first, second = (asyncio.ensure_future(server.call("count")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    assert (await second).text == "1"
    with pytest.raises(asyncio.CancelledError):
        await first
    await server.close()
