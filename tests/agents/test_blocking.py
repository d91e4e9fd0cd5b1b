"""What is run from code that is not async; the rest is tested with `run_sync`."""

import asyncio
import os
import signal
import threading

import pytest

from ziggurat.agents.agent import Agent
from ziggurat.messages.model import ModelRequest
from ziggurat.models.function import FunctionModel


@pytest.mark.timeout(10)
@pytest.mark.skipif(threading.current_thread() is not threading.main_thread(), reason="signals go to the main thread")
def test_an_interrupt_cancels_a_run_in_another_thread() -> None:
    begun, cancelled = threading.Event(), threading.Event()

    async def forever(request: ModelRequest) -> str:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    def interrupt() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    async def notebook() -> None:
        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            Agent(FunctionModel(forever)).run_sync("go")

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(notebook())
    finally:
        loop.close()
    assert cancelled.is_set()
