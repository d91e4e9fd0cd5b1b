"""Sandboxes, at both levels: programs run, nothing leaves them, and nothing that they do harms the host."""

import asyncio
import os
import resource
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import pytest

from tests.samples import sample
from tests.sandbox.corpus import BOMBS, ESCAPES
from ziggurat.core.errors import ConfigurationError, Suspend
from ziggurat.sandbox import ProgramError, Sandbox
from ziggurat.sandbox.monty import missing
from ziggurat.sandbox.sandbox import MAX_DEPTH, ProgramResult, plain

Level = Literal["monty", "python"]
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SECRET = "@secret"
LEVELS = [
    pytest.param(level, marks=pytest.mark.skipif(why is not None, reason=f"{level}: {why}"))
    for level in ("monty", "python")
    for why in (Sandbox.unavailable(level),)
]
BOTH = pytest.mark.parametrize("level", LEVELS)


class _Holder:
    """An object of the host with a secret, whose method programs call."""

    def __init__(self) -> None:
        self.secret = SECRET

    async def call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name == "fail":
            error = ProgramError("RuntimeError", "it failed")
            error.__cause__ = ValueError(self.secret)
            error.host = self  # type: ignore[attr-defined]
            raise error
        return {"name": name, "args": list(args), "kwargs": kwargs}


async def run(sandbox: Sandbox, *codes: str, functions: tuple[str, ...] = ("fetch", "fail")) -> ProgramResult:
    """Run programs in one session, and return the result of the last."""
    async with sandbox.open(NOW, 7) as session:
        for code in codes:
            result = await session.run(code, _Holder().call, functions)
    return result


@BOTH
async def test_a_program_returns_its_last_value_and_what_it_printed(level: Level) -> None:
    result = await run(Sandbox(level), "print('a')\nx = {'b': [1, 2.5, None, True, 'é']}\nx")
    assert result == ProgramResult("a\n", {"b": [1, 2.5, None, True, "é"]})


@BOTH
async def test_a_session_keeps_variables_and_functions(level: Level) -> None:
    result = await run(Sandbox(level), "def f(x):\n    return x + y\ny = 2", "y = 3", "f(1)")
    assert result.value == 4


@BOTH
async def test_variables_come_from_the_host(level: Level) -> None:
    async with Sandbox(level).open(NOW, 7) as session:
        result = await session.run("text[1:3], n['a']", _Holder().call, (), {"text": "abcd", "n": {"a": 1}})
    assert result.value == ["bc", 1]


@BOTH
async def test_calls_come_one_at_a_time_with_their_arguments(level: Level) -> None:
    result = await run(Sandbox(level), "f = fetch\n[f(1, k='é'), [fetch(x) for x in [[2], {'c': 3}]][1]]")
    assert result.value == [
        {"name": "fetch", "args": [1], "kwargs": {"k": "é"}},
        {"name": "fetch", "args": [{"c": 3}], "kwargs": {}},
    ]


@BOTH
@pytest.mark.parametrize("kind", ["PermissionError", "RuntimeError", "TimeoutError", "TypeError", "ValueError"])
async def test_errors_of_calls_can_be_caught_by_their_kind(level: Level, kind: Any) -> None:
    async def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise ProgramError(kind, "why")

    async with Sandbox(level).open(NOW, 7) as session:
        caught = await session.run(f"try:\n    f()\nexcept {kind} as e:\n    x = str(e)\nx", call, ["f"])
        raised = await session.run("f()", call, ["f"])
        after = await session.run("x", call, ["f"])
    assert caught.value == "why"
    assert kind in raised.error
    assert not raised.lost
    assert after.value == "why"


@BOTH
@pytest.mark.parametrize("error", [Suspend(()), asyncio.CancelledError(), SystemExit(SECRET), KeyError(SECRET)])
async def test_other_errors_of_calls_never_come_into_the_program(level: Level, error: BaseException) -> None:
    seen: list[str] = []

    async def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        seen.append(name)
        raise error

    async with Sandbox(level).open(NOW, 7) as session:
        with pytest.raises(type(error)):
            await session.run("try:\n    f()\nexcept BaseException as e:\n    g(str(e))\ng()", call, ["f", "g"])
        after = await session.run("1", call, ["f", "g"])
    assert seen == ["f"]
    assert after.lost


@BOTH
async def test_time_and_random_numbers_are_those_of_the_run(level: Level) -> None:
    code = "import time, random, datetime\n[time.time(), random.random(), str(datetime.datetime.now())[:19]]"
    first, second = await run(Sandbox(level), code), await run(Sandbox(level), code)
    assert first == second
    assert first.value[0] == NOW.timestamp()


@BOTH
@pytest.mark.parametrize("code", ["1 +", "nothing", "1 / 0", "raise SystemExit(3)", "import no_such_module"])
async def test_an_error_of_a_program_leaves_its_session(level: Level, code: str) -> None:
    async with Sandbox(level).open(NOW, 7) as session:
        await session.run("x = 1", _Holder().call)
        failed = await session.run(code, _Holder().call)
        after = await session.run("x", _Holder().call)
    assert failed.error
    assert not failed.lost
    assert after.value == 1


@BOTH
async def test_names_that_are_not_given_cannot_be_called(level: Level) -> None:
    result = await run(Sandbox(level), "fetch()", functions=())
    assert "fetch" in result.error


@BOTH
@pytest.mark.parametrize("code", ["b'x'", "print", "object()", "{1: 2}", "{(1,): 2}", "{1, 2}", "(1, (2,))", "2**5000"])
async def test_only_plain_values_leave(level: Level, code: str) -> None:
    result = await run(Sandbox(level), code)
    assert type(result.value) in (type(None), list, dict)
    assert result.value is not None or result.error


@pytest.mark.parametrize("level", [each for each in LEVELS if "python" in each.values])
@pytest.mark.parametrize(
    "message",
    [
        "no json",
        "[1, 2]",
        "[" * 5_000,
        '{"call": ["fetch"], "args": [], "kwargs": {}}',
        '{"call": {"fetch": 1}}',
        '{"call": "fetch", "args": {}, "kwargs": []}',
        '{"call": "other", "args": [], "kwargs": {}}',
        '{"call": "fetch", "args": ["\\ud800"], "kwargs": {}}',
        '{"done": true}',
        '{"done": true, "value": [[[1e999]]], "error": [1]}',
        '{"printed": [1]}',
        '{"ready": true}',
        "\\xff\\xfe",
    ],
)
async def test_messages_of_programs_are_those_of_strangers(level: Level, message: str) -> None:
    """A program writes to the connection itself, behind the back of the process that serves it."""
    code = (
        "import os\nfor n in range(3, 20):\n    try:\n"
        f"        os.write(n, ({message!r} + chr(10)).encode())\n    except OSError:\n        pass\n1"
    )
    made: list[str] = []

    async def call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        made.append(name)
        return 1

    async with Sandbox(level, seconds=2).open(NOW, 7) as session:
        result = await session.run(code, call, {"fetch": 1})
    assert isinstance(result, ProgramResult)
    assert made in ([], ["fetch"])


def test_the_walk_counts_what_occurs_several_times() -> None:
    shared: Any = [1]
    for _ in range(40):
        shared = [shared, shared]
    loop: Any = []
    loop.append(loop)
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = [deep]
    for value in (shared, loop, deep, "x" * 1001, ["x" * 400] * 3, "\ud800", 2**5000, object(), {(): 1}):
        with pytest.raises(ProgramError):
            plain(value, 1000)
    assert plain({1: (2, {3})}, 1000) == {"1": [2, [3]]}


def test_a_sandbox_that_is_missing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sandbox, "unavailable", staticmethod(lambda level: "it is not installed"))
    with pytest.raises(ConfigurationError, match="not installed"):
        Sandbox()


def test_an_interpreter_that_cannot_be_imported_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    why = missing.__wrapped__()  # without the cache
    assert why is not None
    assert "ziggurat[sandbox]" in why


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


_NAMESPACES = find_spec("sandlock") is None


def _metadata(path: Path) -> tuple[object, ...]:
    status = path.stat()
    return status.st_mode, status.st_uid, status.st_mtime_ns, os.listxattr(path)


@BOTH
@pytest.mark.parametrize("kind", ESCAPES)
async def test_nothing_escapes(
    level: Level, kind: str, tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, marker = tmp_path / "secret.txt", tmp_path / "marker"
    secret.write_text(SECRET)
    monkeypatch.setenv("ZIGGURAT_TEST_SECRET", SECRET)
    before = _metadata(secret)
    places = {"secret": secret, "marker": marker, "port": listener.getsockname()[1], "pid": os.getpid()}
    for code in sample(ESCAPES[kind], 1):
        if level == "python" and _NAMESPACES and code.endswith("in its own"):
            continue
        for name, value in places.items():
            code = code.replace("{" + name + "}", str(value))
        result = await run(Sandbox(level, seconds=2), code)
        assert SECRET not in repr(result).replace(code, ""), code
        assert not os.path.lexists(marker), code
        assert secret.read_text() == SECRET
        assert _metadata(secret) == before, code
        with pytest.raises(BlockingIOError):
            listener.accept()


@BOTH
@pytest.mark.parametrize("kind", BOMBS)
async def test_bombs_end_within_their_limits(level: Level, kind: str) -> None:
    sandbox = Sandbox(level, seconds=0.3, memory=32 * 2**20 if level == "monty" else 128 * 2**20, size=1_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for code in sample(BOMBS[kind], 1):
        async with sandbox.open(NOW, 7) as session:
            began = monotonic()
            result = await session.run(code, _Holder().call, ("fetch", "fail"))
            assert monotonic() - began < sandbox.seconds + 1 + _BUSY, code
        assert len(result.output) + len(result.error) < 2.1 * sandbox.output
        repr(result)  # nothing in it grows when it is read
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 128 * 1024  # in KiB
    assert (await run(sandbox, "1 + 1")).value == 2


_BUSY = 0.5
"""Seconds that a busy machine may take besides."""
