"""The data of the Model Context Protocol, of both of its eras, and what it is here: parts, messages, results."""

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from msgspec import Raw, Struct, field

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError, ToolErrorKind
from ziggurat.http.client import HttpReply
from ziggurat.messages.message import Audio, File, Image, Message, Text, ToolResult
from ziggurat.wires.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpcError, parse

Revision = Literal["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
MODERN: str
LEGACY: list[str]
MODERN, *LEGACY = get_args(Revision)
"""The revision whose requests stand alone, and those that begin with a handshake, newest first."""

PREFIX = "io.modelcontextprotocol/"
TASKS = PREFIX + "tasks"
REASON = "ziggurat/reason"
"""Where a server is told why a question was refused; the protocol has no place of its own for it."""

LISTS = ("tools", "resources", "prompts")  # the lists of a server that may change
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)

MAX_MESSAGE = 16 << 20  # bytes of one message of a server; a larger one ends the connection


CUT = ("transient", "interrupted")  # the kinds of errors after which a stream can be asked for again


_MAX_STRUCTURE = 2 << 20  # bytes of a structured result that is checked


class SessionLost(ToolError):
    """The server does not know the session any more, and has refused the request."""


class ServerGone(ToolError):
    """The connection has ended: the process of the server, or what it sent was no message."""


NOTHING = Raw(b"null")


Headers = tuple[tuple[str, str], ...]


class Authorization(Protocol):
    """Gives the credentials of requests to a server behind a URL."""

    async def headers(self, url: str, ctx: Context) -> Headers: ...

    async def refused(self, reply: HttpReply, sent: Headers, url: str, ctx: Context) -> bool:
        """Get others than those that were sent, after a reply of 401 or 403; return whether there are any."""
        ...


class Hints(Struct, frozen=True, rename="camel", omit_defaults=True):
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None


class ServerTool(Struct, frozen=True, rename="camel", omit_defaults=True):
    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    title: str | None = None
    annotations: Hints | None = None
    output_schema: dict[str, Any] | None = None


class Resource(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that a server lets be read, such as a file."""

    uri: str = ""
    name: str = ""
    title: str | None = None  # for people
    description: str | None = None
    mime_type: str | None = None


class Template(Resource, frozen=True, rename="camel", omit_defaults=True):
    """A resource whose address has variables."""

    uri_template: str = ""


class PromptArgument(Struct, frozen=True, omit_defaults=True):
    name: str
    description: str | None = None
    required: bool = False


class Prompt(Struct, frozen=True, omit_defaults=True):
    """A prompt that a server offers to people."""

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()


class Contents(Struct, frozen=True, rename="camel"):
    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class Block(Struct, frozen=True, rename="camel"):
    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    resource: Contents | None = None


class Said(Struct, frozen=True):
    role: str
    content: Block | list[Block]


class Page(Struct, frozen=True, rename="camel"):
    tools: list[Raw] = []
    resources: list[Raw] = []
    resource_templates: list[Raw] = []
    prompts: list[Raw] = []
    next_cursor: str | None = None
    ttl_ms: float | None = None


def is_given(raw: Raw) -> bool:
    """Return whether there is a value other than null."""
    return bytes(memoryview(raw)[:4]) != b"null"


def structure_in(raw: Raw) -> object:
    """Return the value of raw JSON, which takes many times as much memory."""
    if memoryview(raw).nbytes > _MAX_STRUCTURE:
        raise JsonRpcError(f"its structured content has more than {_MAX_STRUCTURE >> 20} MiB", INTERNAL_ERROR)
    return parse(raw, object, INTERNAL_ERROR)


class Outcome(Struct, frozen=True, rename="camel"):
    """The result of a call, a prompt or a read: final, a demand for input, or the handle of a task."""

    result_type: str = "complete"
    content: list[Block] = []
    structured_content: Raw = NOTHING
    is_error: bool = False
    contents: list[Contents] = []
    messages: list[Said] = []
    input_requests: dict[str, "InputRequest"] | None = None
    request_state: str | None = None
    task_id: str = ""
    status: str = "working"
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: Raw = NOTHING
    error: Raw = NOTHING


class InputRequest(Struct, frozen=True):
    method: str
    params: Raw = Raw(b"{}")


class ServerInfo(Struct, frozen=True, rename="camel"):
    protocol_version: str = ""
    supported_versions: list[str] = []
    capabilities: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None


class Progress(Struct, frozen=True, rename="camel"):
    progress_token: str | int | None = None
    progress: float = 0
    total: float | None = None
    message: str | None = None


def roots_result(folders: Sequence[str]) -> dict[str, Any]:
    return {"roots": [{"uri": Path(each).absolute().as_uri(), "name": Path(each).name} for each in folders]}


_LONGEST_ERROR = 2_000
_KINDS: dict[int, ToolErrorKind] = {INVALID_PARAMS: "invalid_arguments", METHOD_NOT_FOUND: "not_found"}

Piece = Text | Image | Audio | File


def refused(error: JsonRpcError, server: str) -> ToolError:
    kind = _KINDS.get(error.code, "permanent")
    text = str(error)[:_LONGEST_ERROR]
    return ToolError(f"the MCP server {server} answered with the error {error.code}: {text}", kind=kind)


def result_of_call(outcome: Outcome, server: str, tool: str, *, structured: bool) -> ToolResult:
    """Return the result of a call, with its origin; if it is a structured one, as JSON in place of its texts."""
    pieces = [piece_of(block) for block in outcome.content]
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    if is_given(outcome.structured_content) and (structured or not texts):
        value = structure_in(outcome.structured_content) if texts else None
        if not isinstance(value, dict) or [*value.values()] != texts:  # a text in an object is plainer as it is
            others = [piece for piece in pieces if not isinstance(piece, Text)]
            pieces = [Text(bytes(outcome.structured_content).decode()), *others]
    content: str | tuple[Piece, ...]
    if all(isinstance(piece, Text) for piece in pieces):
        content = "\n".join(piece.text for piece in pieces if isinstance(piece, Text))
    else:
        content = tuple(pieces)
    return ToolResult("", tool, content, "permanent" if outcome.is_error else None, origin_of(server, tool))


def origin_of(server: str, tool: str) -> str:
    return f"mcp:{server}/{tool}"


def piece_of(block: Block) -> Piece:
    """Return a piece of content; one of an unknown type as a text that says so."""
    if block.type == "resource" and block.resource is not None:
        return contents_of(block.resource)
    if block.type == "resource_link":
        return Text(f"[resource {block.name}: {block.uri}]")
    if block.type == "text":
        return Text(block.text)
    if block.type == "image":
        return Image(_decoded(block.data), media_type=block.mime_type or "image/png")
    if block.type == "audio":
        return Audio(_decoded(block.data), media_type=block.mime_type or "audio/wav")
    return Text(f"[content of the unknown type {block.type!r:.40}]")


def contents_of(contents: Contents) -> Piece:
    if contents.text is not None:
        return Text(contents.text)
    kind = contents.mime_type or "application/octet-stream"
    data = _decoded(contents.blob or "")
    return Image(data, media_type=kind) if kind.startswith("image/") else File(data, name=contents.uri, media_type=kind)


def message_of(said: Said) -> Message:
    """Return what is said in a prompt, or in a request for a reply of a model, as a message."""
    blocks = said.content if isinstance(said.content, list) else [said.content]
    return Message("assistant" if said.role == "assistant" else "user", tuple(piece_of(block) for block in blocks))


def _decoded(data: str) -> bytes:
    try:
        return b64decode(data, validate=True)
    except ValueError:
        raise JsonRpcError("its data must be Base64", INVALID_PARAMS) from None
