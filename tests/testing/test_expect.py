import asyncio

import pytest

from ziggurat import ConfigurationError, Context
from ziggurat.core import root
from ziggurat.core.service import name_of
from ziggurat.testing import fail_on, run_until_idle
from ziggurat.testing.expect import expect


async def test_requests_come_in_order_and_are_answered_in_any() -> None:
    service, handle = expect(str, int)
    tasks = [asyncio.create_task(service(text, root(text))) for text in ("a", "b")]
    (first, to_first), (second, to_second) = await handle.next(), await handle.next()
    assert (first, second) == ("a", "b")
    assert to_second.ctx.path == "b"
    to_second.send(2)
    to_first.send(1)
    assert await asyncio.gather(*tasks) == [1, 2]
    assert handle.none_waiting()


async def test_a_failure_is_raised_where_it_was_asked() -> None:
    service, handle = expect()
    task = asyncio.create_task(service("a", root()))
    _, reply = await handle.next()
    reply.fail(ConnectionError("gone"))
    with pytest.raises(ConnectionError, match="gone"):
        await task
    with pytest.raises(AssertionError, match="answered already"):
        reply.send(1)


async def test_a_caller_that_has_left_is_seen() -> None:
    service, handle = expect()
    task = asyncio.create_task(service("a", root()))
    await run_until_idle()
    assert not handle.none_waiting()
    task.cancel()
    await run_until_idle()
    _, reply = await handle.next()
    assert reply.abandoned
    reply.send(1)
    reply.fail(ValueError())


async def test_a_request_that_never_comes_is_said() -> None:
    _, handle = expect()
    with pytest.raises(AssertionError, match="no request came within 0 s"):
        await handle.next(seconds=0)


async def echo(request: int, ctx: Context) -> int:
    return request


@pytest.mark.parametrize("numbers", [(), (1,), (2, 3), (4,)])
async def test_it_fails_on_these_calls_only(numbers: tuple[int, ...]) -> None:
    service = fail_on(echo, *numbers, error=lambda: OSError("full"))
    answers = await asyncio.gather(*[service(n, root()) for n in range(1, 5)], return_exceptions=True)
    assert [isinstance(answer, OSError) for answer in answers] == [n in numbers for n in range(1, 5)]
    assert service.calls == 4


def test_calls_are_counted_from_one_and_facts_stay_reachable() -> None:
    assert name_of(fail_on(echo, 1)) == "echo"
    with pytest.raises(ConfigurationError, match="numbers"):
        fail_on(echo, 0)
    with pytest.raises(ConfigurationError, match="numbers"):
        fail_on(echo, "1")  # type: ignore[arg-type]


def test_an_error_is_made_anew_each_time() -> None:
    with pytest.raises(ConfigurationError, match="error"):
        fail_on(echo, 1, error=ValueError("x"))  # type: ignore[arg-type]
