"""What tools may do: deny by default."""

__all__ = ["GRANTS", "PERMISSIONS", "check", "narrowed"]

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.scope import Key
from ziggurat.messages.model import ToolSpec

PERMISSIONS = frozenset(
    {"file_read", "file_write", "network", "database_read", "database_write", "shell_exec", "secret_access"}
)
"""The permissions that have a fixed meaning; any other is written ``custom:name``."""

GRANTS: Key[frozenset[str]] = Key("grants")
"""What the tools of a run and of all agents beneath have been granted."""


def check(spec: ToolSpec, ctx: Context) -> None:
    """Raise Denied unless everything that the tool declares is granted; the text lists what is missing, sorted."""
    granted = ctx.scope.get(GRANTS) or frozenset()
    missing = sorted(set(spec.permissions) - granted)
    if missing:
        raise Denied(f"tool {spec.name!r} denied: missing permissions: {', '.join(missing)}")


def narrowed(ctx: Context, grants: frozenset[str]) -> frozenset[str]:
    """Return what a child gets: never more than its parent has.

    Raises:
        ConfigurationError: a grant has no known name.
    """
    unknown = sorted(grant for grant in grants if grant not in PERMISSIONS and not grant.startswith("custom:"))
    if unknown:
        raise ConfigurationError(
            f"unknown permission {unknown[0]!r}; known are {', '.join(sorted(PERMISSIONS))} and custom:name"
        )
    outer = ctx.scope.get(GRANTS)
    return grants if outer is None else outer & grants
