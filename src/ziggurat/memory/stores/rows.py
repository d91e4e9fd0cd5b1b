"""Rows of memories: the common parts of the stores in SQLite and PostgreSQL."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from ziggurat.memory.record import MemoryRecord

FIELDS: tuple[str, ...] = MemoryRecord.__struct_fields__
"""The columns of a memory, but for its number, in the order of `msgspec.structs.astuple`."""

_PAGE = 500


async def scan_pages(
    read: Callable[[tuple[float, int] | None, int], Awaitable[Sequence[tuple[int, MemoryRecord]]]], limit: int | None
) -> AsyncIterator[MemoryRecord]:
    """Yield the memories of pages; each page is read after the time and the number of the last memory before."""
    # a page at a time, so that a scan of many memories neither fills the process nor makes other work wait
    after: tuple[float, int] | None = None
    while limit is None or limit > 0:
        many = _PAGE if limit is None else min(_PAGE, limit)
        page = await read(after, many)
        for _, record in page:
            yield record
        if len(page) < many:
            return
        number, last = page[-1]
        after = (last.created, number)
        limit = None if limit is None else limit - many
