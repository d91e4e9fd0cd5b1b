"""The files of the page, and the headers that they are sent with."""

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from types import MappingProxyType

import msgspec

from ziggurat.serve.guard import SECURITY_HEADERS

PAGE_HEADERS: Mapping[str, str] = MappingProxyType({**SECURITY_HEADERS, "cache-control": "no-cache"})
"""The headers of every file of the page: those of all answers; it is revalidated by its `ETag`."""

_CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class _Asset(msgspec.Struct, frozen=True):
    """One file of the page, with its content type and its `ETag`."""

    body: bytes
    content_type: str
    etag: str


def asset(name: str) -> _Asset | None:
    """Return the file of the page with this name, as "index.html", or None if there is none."""
    return _read(name) if name in _names() else None


@cache
def _names() -> frozenset[str]:
    return frozenset(each.name for each in files("ziggurat.serve").joinpath("page").iterdir())


@cache
def _read(name: str) -> _Asset:
    body = files("ziggurat.serve").joinpath("page", name).read_bytes()
    return _Asset(body, _CONTENT_TYPES[name.rpartition(".")[2]], f'"{sha256(body).hexdigest()[:16]}"')
