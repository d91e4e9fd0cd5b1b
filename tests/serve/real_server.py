"""The real server in a thread of its own, for tests whose own thread is a browser's."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx

from tests.serve.serving import TOKEN, Serving, serving
from ziggurat.serve.application import ServedApp

__all__ = ["RealServer"]


class RealServer:
    """Serves what `create` returns, from the creation of this object until `stop`.

    Args:
        create: Called in the thread of the server.
        port: The port; by default a free one.

    Attributes:
        public: The address of a proxy before it, if there is one.
    """

    public = ""

    def __init__(self, create: Callable[[], ServedApp], port: int = 0) -> None:
        self.port = port
        self.application: ServedApp
        self.loop: asyncio.AbstractEventLoop
        self._create = create
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        assert self._ready.wait(20)

    async def _serve(self) -> None:
        self._ended, self.loop = asyncio.Event(), asyncio.get_running_loop()
        self.application = self._create()
        async with self.serving() as server:
            self.port = server.port
            self._ready.set()
            await self._ended.wait()

    def serving(self) -> AbstractAsyncContextManager[Serving]:
        """Serve the application."""
        return serving(self.application, self.port)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        """The address of the page, for a browser."""
        return self.public or self.url

    @property
    def login(self) -> str:
        """The address that logs a browser in."""
        return f"{self.page}/?token={self.application.link}"

    def get(self, path: str) -> Any:
        """Return what a program gets."""
        return httpx.get(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"}).json()

    def post(self, path: str, body: Any) -> Any:
        """Post as a program."""
        return httpx.post(self.url + path, json=body, headers={"Authorization": f"Bearer {TOKEN}"}).json()

    def stop(self) -> None:
        """Stop, and wait until it has ended."""
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(20)
