import asyncio
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ziggurat import ConfigurationError, Context, Service, stack
from ziggurat.core import root
from ziggurat.errors import Suspend
from ziggurat.layers.pipeline import tap
from ziggurat.layers.retry import retry
from ziggurat.testing import assert_no_leaks, fail_on

R = TypeVar("R")
Seen = tuple[str, object, str]


async def shout(request: str, ctx: Context) -> str:
    return request.upper()


def looks(seen: list[Seen], *, is_async: bool) -> dict[str, Any]:
    """Return the three functions, which record their arguments."""

    def noting(kind: str) -> Callable[[object, Context], object]:
        def look(what: object, ctx: Context) -> str:
            seen.append((kind, what, ctx.path))
            return "not used"

        async def look_async(what: object, ctx: Context) -> str:
            await asyncio.sleep(0)
            return look(what, ctx)

        return look_async if is_async else look

    return {f"on_{kind}": noting(kind) for kind in ("request", "response", "error")}


def call(service: Service[str, R], request: str = "q") -> R:
    async def main() -> R:
        async with assert_no_leaks():
            return await service(request, root())

    return asyncio.run(main())


@pytest.mark.parametrize("is_async", [False, True])
def test_request_and_response_are_shown_and_not_altered(is_async: bool) -> None:
    seen: list[Seen] = []
    assert call(stack(shout, tap(**looks(seen, is_async=is_async)))) == "Q"
    assert seen == [("request", "q", "run"), ("response", "Q", "run")]


@pytest.mark.parametrize("is_async", [False, True])
def test_an_error_is_shown_and_passes_as_it_is(is_async: bool) -> None:
    seen, error = list[Seen](), ConnectionError("gone")
    with pytest.raises(ConnectionError) as raised:
        call(stack(fail_on(shout, 1, error=lambda: error), tap(**looks(seen, is_async=is_async))))
    assert raised.value is error
    assert seen == [("request", "q", "run"), ("error", error, "run")]


def test_within_a_retry_each_try_is_shown_and_around_it_the_whole() -> None:
    inside, outside = list[Seen](), list[Seen]()
    service = stack(
        fail_on(shout, 1), tap(**looks(outside, is_async=False)), retry(base=0), tap(**looks(inside, is_async=False))
    )
    assert call(service) == "Q"
    assert [kind for kind, *_ in inside] == ["request", "error", "request", "response"]
    assert [kind for kind, *_ in outside] == ["request", "response"]


class Broken:
    """A function that always fails."""

    def __init__(self, is_async: bool) -> None:
        self.is_async = is_async

    def __call__(self, what: object, ctx: Context) -> object:
        if not self.is_async:
            raise ValueError("broken tap")

        async def later() -> None:
            await asyncio.sleep(0)
            raise ValueError("broken tap")

        return later()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("fails", [False, True])
def test_a_tap_that_fails_is_logged_and_masks_nothing(
    fails: bool, is_async: bool, caplog: pytest.LogCaptureFixture
) -> None:
    broken = Broken(is_async)
    service = stack(
        fail_on(shout, *([1] if fails else []), error=ConnectionError),
        tap(on_request=broken, on_response=broken, on_error=broken),
    )
    with caplog.at_level(logging.WARNING, logger="ziggurat"):
        if fails:
            with pytest.raises(ConnectionError) as raised:
                call(service)
            assert raised.value.__context__ is None
        else:
            assert call(service) == "Q"
    assert [record.getMessage() for record in caplog.records] == [
        "a tap (function) failed at run; the call goes on"
    ] * 2
    assert all(record.exc_info and record.exc_info[0] is ValueError for record in caplog.records)


@pytest.mark.parametrize("signal", [asyncio.CancelledError(), Suspend(())])
async def test_signals_are_no_errors_and_pass(signal: BaseException) -> None:
    seen: list[Seen] = []
    with pytest.raises(type(signal)):
        await stack(fail_on(shout, 1, error=lambda: signal), tap(**looks(seen, is_async=False)))("q", root())
    assert [kind for kind, *_ in seen] == ["request"]


async def test_a_call_is_cancelled_also_while_it_is_shown() -> None:
    async with assert_no_leaks():
        looking = asyncio.Event()

        async def slow(what: object, ctx: Context) -> None:
            looking.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(stack(shout, tap(on_response=slow))("q", root()))
        await looking.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("name", ["on_request", "on_response", "on_error"])
def test_what_cannot_be_called_is_refused(name: str) -> None:
    wrong: dict[str, Any] = {name: "print"}
    with pytest.raises(ConfigurationError, match=f"tap\\({name}="):
        tap(**wrong)
