"""UserClient: the user's own httpx client in place of ours."""

from collections.abc import AsyncIterator
from importlib import import_module
from typing import Any

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ModelError, Timeout
from ziggurat.core.settings import checked
from ziggurat.http.client import Headers
from ziggurat.http.limits import Limits

_LEFT = 2.0


class UserClient:
    """Sends requests with the user's own client, whose timeouts, proxies and certificates apply."""

    @checked
    def __init__(self, client: Any, url: str, *, name: str, limits: Limits) -> None:
        kind = next((each for each in type(client).__mro__ if each.__name__ == "AsyncClient"), None)
        if kind is None:
            raise ConfigurationError(f"client= takes an httpx.AsyncClient, got {type(client).__name__}")
        self.client = client
        self.name = name
        self._url = url
        self._limits = limits
        self._errors = import_module(kind.__module__.partition(".")[0])

    async def send(
        self, method: str, path: str, headers: Headers, body: bytes, ctx: Context, *, stream: bool
    ) -> "_UserReply":
        """Send a request, and return the reply once its head has arrived."""
        request = self.client.build_request(method, f"{self._url}{path}", headers=list(headers), content=body)
        try:
            response = await self.client.send(request, stream=True)
        except (self._errors.HTTPError, self._errors.InvalidURL) as error:
            raise self.failed(error) from error
        most = self._limits.stream if stream else self._limits.reply
        return _UserReply(self, response, ctx, most)

    def failed(self, error: Exception) -> ModelError:
        late = isinstance(error, self._errors.TimeoutException)
        what = "was too late" if late else "failed"
        why = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        return ModelError(f"the call of {self.name} {what}: {why}", kind="timeout" if late else "connection")

    async def close(self) -> None:
        """Do nothing."""


class _UserReply:
    def __init__(self, home: UserClient, response: Any, ctx: Context, most: int) -> None:
        self.status: int = response.status_code
        self.headers: dict[str, str] = {name.lower(): value for name, value in response.headers.items()}
        self._home = home
        self._response = response
        self._ctx = ctx
        self._pieces: AsyncIterator[bytes] = response.aiter_bytes()
        self._most = most
        self._given = 0

    async def more(self) -> bytes:
        errors = self._home._errors
        try:
            data = await anext(self._pieces, b"")
            while not data and not self._response.is_stream_consumed:
                data = await anext(self._pieces, b"")
        except (errors.HTTPError, errors.StreamError) as error:
            raise self._home.failed(error) from error
        self._given += len(data)
        if self._given > self._most:
            raise ModelError(
                f"the reply of {self._home.name} is larger than {self._most >> 20} MiB",
                kind="malformed",
                transient=False,
                status=self.status,
            )
        return data

    async def read(self) -> bytes:
        pieces: list[bytes] = []
        while data := await self.more():
            pieces.append(data)
        return b"".join(pieces)

    async def end(self, *, whole: bool) -> None:
        try:
            if whole:
                async with self._ctx.limit(_LEFT):
                    while await self.more():
                        pass
        except (ModelError, Timeout):
            pass  # the rest is only read so that the connection can be used again
        finally:
            await self._response.aclose()
