"""Error bodies of the three formats."""

from http import HTTPStatus

from ziggurat.core.errors import ModelError
from ziggurat.wires.types import Json, ResponseChunk, Wire

_STATUS = {
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "context_overflow": 400,
    "content_filter": 400,
    "rate_limited": 429,
    "overloaded": 503,
    "timeout": 504,
    "malformed": 502,
}

_ANTHROPIC = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    422: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}

_OPENAI = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    413: ("invalid_request_error", None),
    422: ("invalid_request_error", None),
    429: ("requests", "rate_limit_exceeded"),
}


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error of a script."""
    if isinstance(error, ModelError):
        return error.status or _STATUS.get(error.kind, 500)
    return 504 if isinstance(error, TimeoutError) else 500


def error_body(
    wire: Wire | None, status: int, message: str = "", code: str | None = None, *, request_id: str | None = None
) -> Json:
    """Return the body of an error as the provider writes it; `code` replaces its kind of error."""
    if not message:
        message = HTTPStatus(status).phrase if status in set(HTTPStatus) else "Overloaded"
    if wire == "messages":
        kind = code or _ANTHROPIC.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}, "request_id": request_id}
    kind, known = _OPENAI.get(status, ("server_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": code or known}}


def error_frame(wire: Wire | None, status: int, message: str = "", code: str | None = None) -> ResponseChunk:
    """Return an error event in the middle of a stream, after a status of 200."""
    body = error_body(wire, status, message, code)
    if wire == "messages":
        return ResponseChunk({"type": "error", "error": body["error"]}, "error", "error")
    if wire == "responses":
        fields = body["error"]
        code = code or fields["code"] or fields["type"]
        event = {"type": "error", "code": code, "message": fields["message"], "param": None, "sequence_number": 0}
        return ResponseChunk(event, "error", "error")
    return ResponseChunk(body, "", "error")
