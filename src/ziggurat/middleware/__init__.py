"""The built-in middleware."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.caller import CALLER, Caller, ParsedAnswer
    from ziggurat.messages.middleware import Middleware
    from ziggurat.middleware.around import everywhere
    from ziggurat.middleware.guardrail import OutputGuardrail
    from ziggurat.middleware.log import HookCounts, Logging
    from ziggurat.middleware.prompt import DynamicPrompt
    from ziggurat.middleware.prompt_cache import PromptCacheGuard
    from ziggurat.middleware.redaction import Redaction
    from ziggurat.middleware.tools import AllowTools, DynamicTools
    from ziggurat.middleware.trim import Trim
    from ziggurat.middleware.usage import Accounts, UsageAccounting
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "messages.caller": ("CALLER", "Caller", "ParsedAnswer"),
            "messages.middleware": ("Middleware",),
            "middleware.around": ("everywhere",),
            "middleware.guardrail": ("OutputGuardrail",),
            "middleware.log": ("HookCounts", "Logging"),
            "middleware.prompt": ("DynamicPrompt",),
            "middleware.prompt_cache": ("PromptCacheGuard",),
            "middleware.redaction": ("Redaction",),
            "middleware.tools": ("AllowTools", "DynamicTools"),
            "middleware.trim": ("Trim",),
            "middleware.usage": ("Accounts", "UsageAccounting"),
        },
    )

__all__ = [
    "CALLER",
    "Accounts",
    "AllowTools",
    "Caller",
    "DynamicPrompt",
    "DynamicTools",
    "HookCounts",
    "Logging",
    "Middleware",
    "OutputGuardrail",
    "ParsedAnswer",
    "PromptCacheGuard",
    "Redaction",
    "Trim",
    "UsageAccounting",
    "everywhere",
]
