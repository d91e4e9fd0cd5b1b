"""Answers with an error."""

import msgspec

from ziggurat.testing.server.types import Headers, HttpResponse
from ziggurat.wires.errors import error_body
from ziggurat.wires.types import Wire


def error_answer(
    wire: Wire | None, status: int, message: str = "", *, code: str | None = None, headers: Headers = ()
) -> HttpResponse:
    """Return an answer with an error body and its HTTP status."""
    body = msgspec.json.encode(error_body(wire, status, message, code, request_id="req_fake"))
    return HttpResponse(status, (("content-type", "application/json"), *headers), (body,))
