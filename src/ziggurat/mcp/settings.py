"""Settings: how a server is reached, and how its tools are treated."""

from collections.abc import Mapping
from typing import get_args

from msgspec import Struct

from ziggurat.core.service import Effect
from ziggurat.mcp.answers import Elicit
from ziggurat.mcp.wire import Authorization
from ziggurat.messages.model import Model
from ziggurat.tools.permissions import Permissions


class Settings(Struct, frozen=True, eq=False, kw_only=True):
    """The settings of a server; see `mcp` for the meaning of each."""

    name: str
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    folder: str | None = None
    url: str = ""
    headers: Mapping[str, str] = {}
    authorization: Authorization | None = None
    revision: str = ""
    timeout: float = 60.0
    prefix: bool = False
    only: tuple[str, ...] = ("*",)
    effect: Effect | Mapping[str, Effect] | None = None
    permissions: Permissions | None = None
    approval: bool | tuple[str, ...] = False
    model: Model | None = None
    elicit: Elicit | None = None
    roots: tuple[str, ...] = ()
    search: bool | None = None
    required: bool = True

    @property
    def strongest_effect(self) -> Effect:
        known: tuple[Effect, ...] = get_args(Effect)
        if self.effect is None:
            return "once"
        given = self.effect.values() if isinstance(self.effect, Mapping) else [self.effect]
        return max(given, key=known.index, default="once")
