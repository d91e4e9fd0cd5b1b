"""The files of the page."""

from functools import cache
from hashlib import sha256
from importlib.resources import files

import msgspec

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
