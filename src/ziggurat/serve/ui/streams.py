"""Streams of what is told of a run, as server-sent events, each of which has the id of its place."""

import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from msgspec.structs import replace
from starlette.requests import Request

from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError
from ziggurat.serve.narration import Piece, Tale, ToldRun
from ziggurat.wires.types import Json

_PLACE = re.compile(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})")

Place = tuple[int, int, int]
"""Where an event stands: the entry of the record before it, what was told since, and its index in that."""

Encode = Callable[[Tale], Iterable[object]]  # returns what is told as the events of a protocol


async def frames(
    run: ToldRun, encode_tale: Encode, after: Place | None, start: Iterable[object] = (), end: bytes = b""
) -> AsyncGenerator[bytes, None]:
    if after is None:
        for event in start:
            yield _frame((run.after, 0, 0), event)
    async with aclosing(run.told()) as told:
        async for each in told:
            what = each.what
            if after is not None and isinstance(what, Piece) and each.number == after[0]:
                known = after[1] - (each.units - len(what.text))
                what = replace(what, text=what.text[known:]) if 0 < known < len(what.text) else what
            for index, event in enumerate(encode_tale(what)):
                place = (each.number, each.units, index)
                if after is None or place > after:
                    yield _frame(place, event)
    if end:
        yield end


def _frame(place: Place, event: object) -> bytes:
    return b"id: %d.%d.%d\ndata: %b\n\n" % (*place, encode(event))


def file_part(url: str, name: object, *, is_image: bool) -> Json:
    if is_image:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "file", "file_data" if url.startswith("data:") else "file_url": url, "filename": name}


def read_place(request: Request) -> Place | None:
    text = request.headers.get("last-event-id") or request.query_params.get("after")
    if text is None:
        return None
    match = _PLACE.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"the id of an event here is such as 3.14.0, got {text!r:.50}")
    return int(match[1]), int(match[2]), int(match[3])
