"""The built-in middleware."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
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
