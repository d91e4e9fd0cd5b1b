"""JSON-RPC 2.0: messages from and to bytes, without any input or output.

``read`` returns one of four messages; what they carry stays raw JSON until ``parse`` reads it as a type. Batches are
refused: none of the protocols that are spoken here has them.
"""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, DecodeError, Raw, Struct, UnsetType, ValidationError, json

from ziggurat.core import codec
from ziggurat.core.codec import check_depth, encode
from ziggurat.core.errors import ZigguratError

T = TypeVar("T")

Id: TypeAlias = str | int  # the id of a request, which its answer repeats
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

_NOTHING = Raw(b"{}")
_MAX_DEPTH = 750
"""How many levels deep a message may be nested: a server's schemas may be deep, and Python 3.11 decodes up to 1,000."""


class JsonRpcError(ZigguratError):
    def __init__(
        self, message: str, code: int = INTERNAL_ERROR, data: object = None, request_id: Id | None = None
    ) -> None:
        super().__init__(message)
        self.message: str = message
        self.code: int = code
        self.data: object = data
        self.request_id: Id | None = request_id

    def answer(self, request_id: Id | None = None) -> "Failure":
        """Return the response that has this error; without an id to the message that could not be read."""
        error = ErrorObject(self.code, self.message, UNSET if self.data is None else self.data)
        return Failure(self.request_id if request_id is None else request_id, error)


class ErrorObject(Struct, frozen=True, omit_defaults=True):
    code: int
    message: str = ""
    data: Any = UNSET


class Request(Struct, frozen=True, omit_defaults=True, tag_field="jsonrpc", tag="2.0"):
    id: Id
    method: str
    params: Any = UNSET


class Notification(Struct, frozen=True, omit_defaults=True, tag_field="jsonrpc", tag="2.0"):
    method: str
    params: Any = UNSET


class Success(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    id: Id
    result: Any


class Failure(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    id: Id | None
    error: ErrorObject

    def exception(self) -> JsonRpcError:
        data = None if self.error.data is UNSET else self.error.data
        return JsonRpcError(self.error.message, self.error.code, data, self.id)


Message: TypeAlias = Request | Notification | Success | Failure
"""One message, of either side."""


class _Any(Struct, frozen=True, tag_field="jsonrpc", tag="2.0"):
    id: Id | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _NOTHING
    result: Raw | UnsetType = UNSET
    error: ErrorObject | None = None


class _OnlyId(Struct, frozen=True):
    id: Id | None = None


_decode: Callable[[bytes | str], _Any] = codec.decoder(_Any).decode
_decode_id = codec.decoder(_OnlyId).decode
_decoders: dict[Any, "json.Decoder[Any]"] = {}
_UNREADABLE = (DecodeError, UnicodeDecodeError, RecursionError)


def write(message: Message) -> bytes:
    """Return a message as JSON on one line, without a line end."""
    return encode(message)


def read(data: bytes | str) -> Message:
    """Return the message that JSON has; params and result are raw JSON, absent params an empty object."""
    try:
        got = _decode(data)
    except _UNREADABLE as error:
        raise _refused(data, error) from None
    try:
        check_depth(data, _MAX_DEPTH)
    except DecodeError as error:
        raise JsonRpcError(f"the message cannot be read: {error}", PARSE_ERROR) from None
    if got.method is not UNSET:
        if got.result is UNSET and got.error is None:
            if got.id is UNSET:
                return Notification(got.method, got.params)
            if got.id is not None:
                return Request(got.id, got.method, got.params)
    elif got.error is not None:
        if got.result is UNSET or bytes(got.result) == b"null":
            return Failure(None if got.id is UNSET else got.id, got.error)
    elif got.result is not UNSET and got.id is not UNSET and got.id is not None:
        return Success(got.id, got.result)
    readable = None if got.id is UNSET else got.id
    raise JsonRpcError("the message is neither a request nor a response", INVALID_REQUEST, request_id=readable)


def _refused(data: bytes | str, error: Exception) -> JsonRpcError:
    try:
        request_id = _decode_id(data).id
        return JsonRpcError(f"the message is not one of JSON-RPC: {error}", INVALID_REQUEST, request_id=request_id)
    except DecodeError as second:
        code = INVALID_REQUEST if isinstance(second, ValidationError) else PARSE_ERROR
    except (UnicodeDecodeError, RecursionError):
        code = PARSE_ERROR
    return JsonRpcError(f"the message cannot be read: {error}", code)


def parse(raw: Any, kind: type[T], code: int = INVALID_PARAMS) -> T:
    """Return the params or the result of a message that was read, as a type."""
    decoder = _decoders.get(kind) or _decoders.setdefault(kind, codec.decoder(kind))
    try:
        value: T = decoder.decode(raw)
    except _UNREADABLE as error:
        raise JsonRpcError(str(error), code) from None
    return value
