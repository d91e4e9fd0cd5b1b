"""The built-in middleware; each name is imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ziggurat.middleware.around import everywhere
    from ziggurat.middleware.guardrail import OutputGuardrail
    from ziggurat.middleware.log import HookCounts, Logging
    from ziggurat.middleware.prompt import DynamicPrompt
    from ziggurat.middleware.prompt_cache import PromptCacheGuard
    from ziggurat.middleware.redaction import Redaction
    from ziggurat.middleware.tools import AllowTools, DynamicTools
    from ziggurat.middleware.trim import Trim
    from ziggurat.middleware.usage import Accounts, UsageAccounting

_HOMES = {
    "Accounts": "usage",
    "AllowTools": "tools",
    "DynamicPrompt": "prompt",
    "DynamicTools": "tools",
    "HookCounts": "log",
    "Logging": "log",
    "OutputGuardrail": "guardrail",
    "PromptCacheGuard": "prompt_cache",
    "Redaction": "redaction",
    "Trim": "trim",
    "UsageAccounting": "usage",
    "everywhere": "around",
}

__all__ = [
    "Accounts",
    "AllowTools",
    "DynamicPrompt",
    "DynamicTools",
    "HookCounts",
    "Logging",
    "OutputGuardrail",
    "PromptCacheGuard",
    "Redaction",
    "Trim",
    "UsageAccounting",
    "everywhere",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'ziggurat.middleware' has no attribute {name!r}")
    found = getattr(import_module(f"ziggurat.middleware.{home}"), name)
    globals()[name] = found
    return found
