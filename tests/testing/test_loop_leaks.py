import asyncio
import socket
import threading

import pytest

from ziggurat.testing import assert_no_leaks


async def hang() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_is_left_is_named() -> None:
    with pytest.raises(AssertionError, match="'lost'"):
        async with assert_no_leaks():
            task = asyncio.create_task(hang(), name="lost")
    task.cancel()


async def test_what_is_just_ending_may_end_and_what_was_there_may_stay() -> None:
    before = asyncio.create_task(hang())
    async with assert_no_leaks():
        asyncio.create_task(asyncio.sleep(0)).cancel()
        asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006
    before.cancel()


def test_a_thread_and_a_socket_that_are_left_are_named() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="forgotten")
    with pytest.raises(AssertionError) as raised, assert_no_leaks():
        thread.start()
        opened = socket.socket()
    assert "thread 'forgotten'" in str(raised.value)
    assert "socket:" in str(raised.value)
    gate.set()
    thread.join()
    opened.close()


def test_threads_of_pools_are_kept_on_purpose() -> None:
    gate = threading.Event()
    thread = threading.Thread(target=gate.wait, name="ziggurat-tools_0")
    with assert_no_leaks():
        thread.start()
    gate.set()
    thread.join()


async def test_a_whole_loop_leaves_nothing() -> None:
    with assert_no_leaks():
        await asyncio.sleep(0)


async def test_an_error_of_the_block_is_not_masked() -> None:
    with pytest.raises(ValueError, match="mine"):
        async with assert_no_leaks():
            task = asyncio.create_task(hang())
            raise ValueError("mine")
    task.cancel()
