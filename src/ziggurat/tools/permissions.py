"""Permissions: what tools may do; deny by default."""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from msgspec import Meta, Struct

from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.core.similar import similar
from ziggurat.messages.model import ToolSpec

PERMISSIONS = frozenset(
    {"file_read", "file_write", "network", "database_read", "database_write", "shell_exec", "secret_access"}
)
"""The permissions that have a fixed meaning; any other is written ``custom:name``."""

GRANTS: Key[frozenset[str]] = Key("grants")  # the permissions granted to the tools of a run and of all agents below

DECLARED_ONLY: Key[bool] = Key("declared only")
"""Whether the run was given grants, so that a tool that declares no permissions is denied."""


class PermissionCheck(Struct, frozen=True):
    """One check of a tool's permissions.

    Attributes:
        who: The name of the agent that called.
        path: The path of the call in the run.
        tool: The name of the tool.
        wanted: The permissions it declares, sorted.
        granted: The permissions granted at that path, sorted.
        missing: The missing permissions, sorted, or another reason for the denial; empty if it was allowed.
        at: The time, in POSIX seconds of the run's clock.
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
        return not self.missing


Permissions = Annotated[Iterable[str], Meta(description="such as ['network']")]


class PermissionLog:
    """Keeps the last permission checks, allowed and denied, and counts all of them::

        log = PermissionLog()
        await agent.run("...", grants=["network"], environment=Environment(permission_log=log))
        [check.tool for check in log if not check.allowed]

    Args:
        size: How many checks it holds; the oldest are dropped first.
    """

    @checked
    def __init__(self, size: PositiveInt = 1000) -> None:
        self._entries: deque[PermissionCheck] = deque(maxlen=size)
        self.checks: int = 0
        self.denials: int = 0

    def add(self, entry: PermissionCheck) -> None:
        """Add a check."""
        self._entries.append(entry)
        self.checks += 1
        self.denials += not entry.allowed

    def __iter__(self) -> Iterator[PermissionCheck]:
        return iter(tuple(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __repr__(self) -> str:
        return f"PermissionLog(checks={self.checks}, denials={self.denials})"


PERMISSION_LOG: Key[PermissionLog] = Key("permission log")


def check(spec: ToolSpec, ctx: Context) -> None:
    """Raise Denied unless everything that the tool declares is granted; the message lists what is missing, sorted."""
    scope = ctx.scope
    if not spec.permissions and DECLARED_ONLY not in scope and PERMISSION_LOG not in scope:
        return
    has = scope.get(GRANTS) or frozenset()
    missing = tuple(sorted(set(spec.permissions) - has)) if spec.permissions else ()
    undeclared = not spec.declared and not spec.permissions and scope.get(DECLARED_ONLY) is True
    if undeclared:
        missing = ("[tool declares nothing]",)
    if scope.get(PERMISSION_LOG) is not None:
        _note(spec.name, spec.permissions, missing, ctx)
    if undeclared:
        raise Denied(
            f"tool {spec.name!r} denied: it does not declare what it needs; say so with permissions=[...], "
            "or permissions=[] if it needs nothing"
        )
    if missing:
        raise Denied(f"tool {spec.name!r} denied: missing permissions: {', '.join(missing)}")


def note_unknown(name: str, ctx: Context) -> None:
    if ctx.scope.get(PERMISSION_LOG) is not None:
        _note(name, (), ("[no such tool]",), ctx)


def _note(tool: str, declared: Iterable[str], missing: tuple[str, ...], ctx: Context) -> None:
    who = ctx.path.rpartition("/step-")[0].rpartition("/")[2]
    has = ctx.scope.get(GRANTS) or frozenset()
    entry = PermissionCheck(who, ctx.path, tool, tuple(sorted(declared)), tuple(sorted(has)), missing, ctx.clock.now())
    ctx.scope[PERMISSION_LOG].add(entry)


def known(grants: Iterable[str]) -> frozenset[str]:
    names = frozenset(grants)
    unknown = sorted(
        str(grant)
        for grant in names
        if grant not in PERMISSIONS and not (isinstance(grant, str) and grant.startswith("custom:"))
    )
    if unknown:
        hint = "".join(f"did you mean {near!r}? " for near in similar(unknown[0], PERMISSIONS))
        raise ConfigurationError(
            f"unknown permission {unknown[0]!r}; {hint}known are {', '.join(sorted(PERMISSIONS))} and custom:name"
        )
    return names


def limit_grants(scope: dict[Key[Any], Any], grants: Iterable[str]) -> None:
    recorded = frozenset(grants)
    scope[GRANTS], scope[DECLARED_ONLY] = recorded & scope.get(GRANTS, recorded), True


def narrow_grants(ctx: Context, grants: frozenset[str]) -> frozenset[str]:
    """Return the grants limited to those of the context: a child never gets more than its parent."""
    known(grants)
    outer = ctx.scope.get(GRANTS)
    return grants if outer is None else outer & grants
