"""Results of servers as results of tools, as messages and as parts."""

from base64 import b64decode

from ziggurat.core.errors import ToolError, ToolErrorKind
from ziggurat.core.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, JsonRpcError
from ziggurat.mcp.wire import Block, Contents, Outcome, Said, is_given, structure_in
from ziggurat.messages.message import Audio, File, Image, Message, Text, ToolResult

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
