"""The data of the Model Context Protocol, of both of its eras, and the interface of its transports."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Raw, Struct, field

from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError
from ziggurat.core.jsonrpc import Id, JsonRpcError, Message, Notification, Request, parse

MODERN = "2026-07-28"
"""The revision whose requests stand alone: no handshake, no session."""

LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions that begin with a handshake, newest first."""

TASKS = "io.modelcontextprotocol/tasks"
PROGRESS = "notifications/progress"
CANCELLED = "notifications/cancelled"

HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)

MAX_MESSAGE = 32 << 20
"""Bytes of one message of a server; a larger one ends the connection."""

MAX_NOISE = 10_000
"""Messages that nobody waits for, since the last one that was; more of them end the connection."""


MAX_WAITING = 1_000
"""Messages of one call that wait to be handled; what comes beyond is dropped, except for the response."""


class SessionLost(ToolError):
    """The server does not know the session any more, and has refused the request."""


class ServerGone(ToolError):
    """The connection has ended: the process of the server, or what it sent was no message."""


NOTHING = Raw(b"null")


class Exchange(Protocol):
    """One request and what is received for it."""

    async def next(self) -> Message:
        """Return the next message; the last one is the response."""
        ...

    async def end(self, *, answered: bool) -> None:
        """End it; if it was not answered, the server is told that the answer is not wanted."""
        ...


class Transport(Protocol):
    """How messages get to a server and back."""

    revision: str
    """The revision that was agreed on; empty before."""

    @property
    def gone(self) -> bool:
        """Whether no further message can be sent."""
        ...

    async def open(self) -> None:
        """Begin; raise ToolError if that fails."""
        ...

    async def begun(self) -> None:
        """Take note that the revision is agreed on."""
        ...

    async def begin(self, request: Request, headers: "Headers", ctx: Context) -> Exchange:
        """Send a request."""
        ...

    async def tell(self, message: Message) -> None:
        """Send a message that has no answer."""
        ...

    def post(self, message: Message) -> None:
        """Send a message that has no answer, and do not wait until it is sent."""
        ...

    def kill(self) -> None:
        """End at once, without a word."""
        ...

    async def close(self) -> None:
        """End, and wait until nothing is left."""
        ...


Headers = tuple[tuple[str, str], ...]
Receive = Callable[[Message], bool]
"""Takes a message that belongs to no request, and returns whether somebody wanted it."""


class Hints(Struct, frozen=True, rename="camel", omit_defaults=True):
    """What a server says about a tool."""

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None


class ServerTool(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A tool as a server lists it."""

    name: str
    input_schema: dict[str, Any]
    description: str | None = None
    title: str | None = None
    annotations: Hints | None = None


class Resource(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Something that a server lets be read, such as a file.

    Attributes:
        uri: Its address; of a template, with variables in braces.
        name: Its name.
        title: Its title, for people.
        description: What it is.
        mime_type: The type of its content.
    """

    uri: str = ""
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None


class Template(Resource, frozen=True, rename="camel", omit_defaults=True):
    """A resource whose address has variables."""

    uri_template: str = ""


class PromptArgument(Struct, frozen=True, omit_defaults=True):
    """An argument of a prompt."""

    name: str
    description: str | None = None
    required: bool = False


class Prompt(Struct, frozen=True, omit_defaults=True):
    """A prompt that a server offers to people.

    Attributes:
        name: Its name.
        title: Its title, for people.
        description: When to use it.
        arguments: What it takes.
    """

    name: str
    title: str | None = None
    description: str | None = None
    arguments: tuple[PromptArgument, ...] = ()


class Contents(Struct, frozen=True, rename="camel"):
    """The content of a resource."""

    uri: str = ""
    mime_type: str | None = None
    text: str | None = None
    blob: str | None = None


class Block(Struct, frozen=True, rename="camel"):
    """A piece of content; which fields it has depends on its type."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str = ""
    name: str = ""
    resource: Contents | None = None


class Said(Struct, frozen=True):
    """A message of a prompt, or to a model."""

    role: str
    content: Block | list[Block]


class Page(Struct, frozen=True, rename="camel"):
    """A page of a list."""

    tools: list[Raw] = []
    resources: list[Raw] = []
    resource_templates: list[Raw] = []
    prompts: list[Raw] = []
    next_cursor: str | None = None
    ttl_ms: float | None = None


def is_given(raw: Raw) -> bool:
    """Return whether there is a value other than null."""
    return bytes(raw) != b"null"


class Outcome(Struct, frozen=True, rename="camel"):
    """The result of a call, a prompt or a read: final, a demand for input, or the handle of a task."""

    result_type: str = "complete"
    content: list[Block] = []
    structured_content: Raw = NOTHING
    is_error: bool = False
    contents: list[Contents] = []
    messages: list[Raw] = []
    input_requests: dict[str, "InputRequest"] | None = None
    request_state: str | None = None
    task_id: str = ""
    status: str = "working"
    status_message: str | None = None
    poll_interval_ms: float | None = None
    result: Raw = NOTHING
    error: Raw = NOTHING


class InputRequest(Struct, frozen=True):
    """What a server asks of its client, as a part of a result."""

    method: str
    params: Raw = Raw(b"{}")


class ServerInfo(Struct, frozen=True, rename="camel"):
    """What a server says of itself at the beginning."""

    protocol_version: str = ""
    supported_versions: list[str] = []
    capabilities: dict[str, Any] = field(default_factory=dict)
    instructions: str | None = None


class Progress(Struct, frozen=True, rename="camel"):
    """How far a call has come."""

    progress_token: str | int | None = None
    progress: float = 0
    total: float | None = None
    message: str | None = None


def progress_token(message: Message) -> Id | None:
    """Return the token of the call whose progress a message reports; None if it is another message."""
    if not isinstance(message, Notification) or message.method != PROGRESS:
        return None
    try:
        return parse(message.params, Progress).progress_token
    except JsonRpcError:
        return None


def roots_result(folders: Sequence[str]) -> dict[str, Any]:
    """Return the folders that a server may work in, as it is told."""
    return {"roots": [{"uri": Path(each).absolute().as_uri(), "name": Path(each).name} for each in folders]}
