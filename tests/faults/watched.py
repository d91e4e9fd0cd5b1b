"""A disk whose requests can be watched: counted, made to fail, or made the last that a process does for a while."""

__all__ = ["WatchedDisk"]

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ziggurat.databases.files import Disk


class WatchedDisk(Disk):
    """Does each request within `around`; flushes nothing, as nothing is to survive a loss of power."""

    @contextmanager
    def around(self, what: str, *arguments: Any) -> Iterator[None]:
        """Do something before and after a request, by the name of its method."""
        yield


def _watched(what: str) -> Callable[..., Any]:
    def request(self: WatchedDisk, *arguments: Any, **more: Any) -> Any:
        with self.around(what, *arguments):
            return None if what.startswith("sync") else getattr(Disk, what)(self, *arguments, **more)

    return request


for _what in ("open", "edit", "write", "overwrite", "truncate", "sync", "sync_folder", "make_folder", "rename"):
    setattr(WatchedDisk, _what, _watched(_what))
