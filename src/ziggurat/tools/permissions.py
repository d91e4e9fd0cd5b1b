"""Permissions: what tools may do; deny by default."""

__all__ = [
    "AUDIT",
    "DECLARED_ONLY",
    "GRANTS",
    "PERMISSIONS",
    "Audit",
    "AuditEntry",
    "check",
    "granting",
    "known",
    "narrowed",
    "note_unknown",
]

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.scope import Key
from ziggurat.messages.model import ToolSpec

PERMISSIONS = frozenset(
    {"file_read", "file_write", "network", "database_read", "database_write", "shell_exec", "secret_access"}
)
"""The permissions that have a fixed meaning; any other is written ``custom:name``."""

GRANTS: Key[frozenset[str]] = Key("grants")
"""What the tools of a run and of all agents below have been granted."""

DECLARED_ONLY: Key[bool] = Key("declared only")
"""Whether grants were given to the run, so that a tool that does not say what it needs is denied."""


class AuditEntry(Struct, frozen=True):
    """One check of a tool's permissions.

    Attributes:
        who: The agent that called.
        path: Where the call stands in the run.
        tool: The tool.
        wanted: What it declares, sorted.
        granted: What has been granted there, sorted.
        missing: What was missing, sorted, or why it was denied otherwise; empty if it was allowed.
        at: When, in POSIX seconds of the run's clock.
    """

    who: str
    path: str
    tool: str
    wanted: tuple[str, ...]
    granted: tuple[str, ...]
    missing: tuple[str, ...]
    at: float

    @property
    def allowed(self) -> bool:
        """Whether the call was let through."""
        return not self.missing


class Audit:
    """The last checks of permissions, allowed and denied, and how many there were::

        audit = Audit()
        await agent.run("...", deps=granting("network", audit=audit))
        [entry.tool for entry in audit if not entry.allowed]

    Args:
        size: How many entries are kept; the oldest go first.

    Raises:
        ConfigurationError: the size is not a positive number.
    """

    def __init__(self, size: int = 1000) -> None:
        if not isinstance(size, int) or size < 1:
            raise ConfigurationError(f"an audit keeps at least one entry, got size={size!r}")
        self._entries: deque[AuditEntry] = deque(maxlen=size)
        self.checks = 0
        self.denials = 0

    def add(self, entry: AuditEntry) -> None:
        """Keep an entry."""
        self._entries.append(entry)
        self.checks += 1
        self.denials += not entry.allowed

    def __iter__(self) -> Iterator[AuditEntry]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"Audit(checks={self.checks}, denials={self.denials})"


AUDIT: Key[Audit] = Key("audit")
"""Where checks of permissions are written down."""


def granting(*grants: str, audit: Audit | None = None) -> dict[Key[Any], Any]:
    """Return the dependencies that grant one run no more than this::

        await agent.run("...", deps=granting("network", "file_read"))

    Its agents get the intersection with what they are granted themselves. Tools that do not declare what they need
    are denied: they say ``permissions=[]`` if it is nothing. Give it again to `resume`.

    Args:
        grants: Permissions; none grants nothing.
        audit: Where checks are written down.

    Raises:
        ConfigurationError: a grant has no known name.
    """
    given: dict[Key[Any], Any] = {GRANTS: known(grants), DECLARED_ONLY: True}
    return given if audit is None else {**given, AUDIT: audit}


def check(spec: ToolSpec, ctx: Context) -> None:
    """Raise Denied unless everything that the tool declares is granted; the message lists what is missing, sorted.

    Where grants were given to the run, a tool that does not say what it needs is denied too.
    """
    scope = ctx.scope
    has = scope.get(GRANTS) or frozenset()
    missing = tuple(sorted(set(spec.permissions) - has)) if spec.permissions else ()
    undeclared = not spec.declared and not spec.permissions and scope.get(DECLARED_ONLY) is True
    if undeclared:
        missing = ("[tool declares nothing]",)
    if scope.get(AUDIT) is not None:
        _note(spec.name, spec.permissions, missing, ctx)
    if undeclared:
        raise Denied(
            f"tool {spec.name!r} denied: it does not declare what it needs; say so with permissions=[...], "
            "or permissions=[] if it needs nothing"
        )
    if missing:
        raise Denied(f"tool {spec.name!r} denied: missing permissions: {', '.join(missing)}")


def note_unknown(name: str, ctx: Context) -> None:
    """Write down that a tool was called that there is not."""
    if ctx.scope.get(AUDIT) is not None:
        _note(name, (), ("[no such tool]",), ctx)


def _note(tool: str, wanted: Iterable[str], missing: tuple[str, ...], ctx: Context) -> None:
    who = ctx.path.rpartition("/step-")[0].rpartition("/")[2]
    has = ctx.scope.get(GRANTS) or frozenset()
    entry = AuditEntry(who, ctx.path, tool, tuple(sorted(wanted)), tuple(sorted(has)), missing, ctx.clock.now())
    ctx.scope[AUDIT].add(entry)


def known(grants: Iterable[str]) -> frozenset[str]:
    """Return permissions as a set.

    Raises:
        ConfigurationError: one has no known name.
    """
    wanted = frozenset(grants)
    unknown = sorted(
        str(grant)
        for grant in wanted
        if grant not in PERMISSIONS and not (isinstance(grant, str) and grant.startswith("custom:"))
    )
    if unknown:
        raise ConfigurationError(
            f"unknown permission {unknown[0]!r}; known are {', '.join(sorted(PERMISSIONS))} and custom:name"
        )
    return wanted


def narrowed(ctx: Context, grants: frozenset[str]) -> frozenset[str]:
    """Return what a child gets: never more than its parent has.

    Raises:
        ConfigurationError: a grant has no known name.
    """
    known(grants)
    outer = ctx.scope.get(GRANTS)
    return grants if outer is None else outer & grants
