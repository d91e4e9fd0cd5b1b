"""Authorization: the credentials of requests to a server behind a URL."""

from typing import Protocol

from ziggurat.core.context import Context
from ziggurat.http.client import HttpReply
from ziggurat.mcp.wire import Headers


class Authorization(Protocol):
    """Gives the credentials of requests."""

    async def headers(self, url: str, ctx: Context) -> Headers:
        """Return the headers of a request, if credentials are there."""
        ...

    async def refused(self, reply: HttpReply, sent: Headers, url: str, ctx: Context) -> bool:
        """Get others than those that were sent, after a reply of 401 or 403; return whether there are any."""
        ...
