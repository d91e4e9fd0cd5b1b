"""The data of A2A 1.0, as its JSON has it; what both a server and a client of agents read and write."""

from typing import Any, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType

from ziggurat.core.codec import encode
from ziggurat.messages import message as own
from ziggurat.wires import jsonrpc

T = TypeVar("T")

VERSION = "1.0"
VERSION_HEADER = "A2A-Version"
CARD_PATH = "/.well-known/agent-card.json"

TASK_NOT_FOUND = -32001
TASK_NOT_CANCELABLE = -32002
PUSH_NOT_SUPPORTED = -32003
UNSUPPORTED_OPERATION = -32004
CONTENT_TYPE_NOT_SUPPORTED = -32005
VERSION_NOT_SUPPORTED = -32009
_REASONS = {
    TASK_NOT_FOUND: "TASK_NOT_FOUND",
    TASK_NOT_CANCELABLE: "TASK_NOT_CANCELABLE",
    PUSH_NOT_SUPPORTED: "PUSH_NOTIFICATION_NOT_SUPPORTED",
    UNSUPPORTED_OPERATION: "UNSUPPORTED_OPERATION",
    CONTENT_TYPE_NOT_SUPPORTED: "CONTENT_TYPE_NOT_SUPPORTED",
    VERSION_NOT_SUPPORTED: "VERSION_NOT_SUPPORTED",
}

TaskState = Literal[
    "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED",
]  # fmt: skip
WORKING: TaskState = "TASK_STATE_WORKING"
INPUT_REQUIRED: TaskState = "TASK_STATE_INPUT_REQUIRED"
TERMINAL: tuple[TaskState, ...] = (
    *("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED"),
)


class _Data(Struct, frozen=True, rename="camel", omit_defaults=True): ...


class Part(_Data, frozen=True):
    """One part of a message or an artifact; it has one of the first four."""

    text: str | None = None
    raw: bytes | None = None
    url: str | None = None
    data: Any = UNSET
    filename: str | None = None
    media_type: str | None = None

    def as_own(self) -> own.Text | own.Image | own.File:
        """Return the part as it is sent to a model; a value as its JSON."""
        if self.raw is None and self.url is None:
            return own.Text(self.text or "" if self.data is UNSET else encode(self.data).decode())
        kind = self.media_type or "application/octet-stream"
        if kind.startswith("image/"):
            return own.Image(self.raw, self.url, kind)
        return own.File(self.raw, self.url, None, self.filename, kind)

    @classmethod
    def of(cls, part: own.Part) -> "Part | None":
        match part:
            case own.Text(text) if text:
                return cls(text=text)
            case own.Image(data, url, kind) | own.Audio(data, url, kind):
                return cls(raw=data, url=url, media_type=kind)
            case own.File(data, url, _, name, kind):
                return cls(raw=data, url=url, filename=name, media_type=kind)
        return None


class Message(_Data, frozen=True):
    """What one side says to the other."""

    message_id: str
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: tuple[Part, ...]
    context_id: str | None = None
    task_id: str | None = None

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if part.text)


class Status(_Data, frozen=True):
    state: TaskState
    message: Message | None = None
    timestamp: str | None = None


class Artifact(_Data, frozen=True):
    artifact_id: str
    parts: tuple[Part, ...]


class Task(_Data, frozen=True):
    id: str
    status: Status
    context_id: str = ""
    artifacts: tuple[Artifact, ...] = ()
    history: tuple[Message, ...] = ()

    @property
    def parts(self) -> tuple[Part, ...]:
        return tuple(part for artifact in self.artifacts for part in artifact.parts)


class StatusUpdate(_Data, frozen=True):
    task_id: str
    context_id: str
    status: Status


class ArtifactUpdate(_Data, frozen=True):
    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False


class StreamResponse(_Data, frozen=True):
    """What is sent of a task, or the answer to a message; it has one of these."""

    task: Task | None = None
    message: Message | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


class Authentication(_Data, frozen=True):
    scheme: str
    credentials: str = ""


class PushConfig(_Data, frozen=True):
    url: str
    id: str = ""
    task_id: str = ""
    token: str | None = None
    authentication: Authentication | None = None


class SendConfiguration(_Data, frozen=True):
    task_push_notification_config: PushConfig | None = None
    history_length: int | None = None
    return_immediately: bool = False


class SendMessage(_Data, frozen=True):
    message: Message
    configuration: SendConfiguration = SendConfiguration()


class TaskQuery(_Data, frozen=True):
    id: str = ""
    task_id: str = ""
    history_length: int | None = None


class TasksQuery(_Data, frozen=True):
    context_id: str = ""
    status: TaskState | None = None
    page_size: int = 50
    page_token: str = ""
    history_length: int | None = None
    status_timestamp_after: str | None = None
    include_artifacts: bool = False


class Interface(_Data, frozen=True):
    url: str
    protocol_binding: str
    protocol_version: str = ""


class Capabilities(_Data, frozen=True, omit_defaults=False):
    streaming: bool = False
    push_notifications: bool = False


class Card(_Data, frozen=True):
    name: str
    supported_interfaces: tuple[Interface, ...]
    capabilities: Capabilities = Capabilities()
    description: str | UnsetType = UNSET


def read_params(raw: Any, kind: type[T]) -> T:
    """Return the parameters of a request, whose names may be in camel case or have underscores."""
    params = jsonrpc.parse(raw, dict[str, Any])
    if any("_" in name for name in params):
        raw = encode({_camel(name): value for name, value in params.items()})
    return jsonrpc.parse(raw, kind)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)


def refused(text: str, code: int) -> jsonrpc.JsonRpcError:
    kind = "type.googleapis.com/google.rpc.ErrorInfo"
    info = {"@type": kind, "reason": _REASONS[code], "domain": "a2a-protocol.org"} if code in _REASONS else None
    return jsonrpc.JsonRpcError(text, code, None if info is None else [info])
