"""The built-in middleware."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "messages.caller": ("CALLER", "Caller", "ParsedAnswer"),
        "messages.middleware": ("Middleware",),
        "middleware.around": ("everywhere",),
        "middleware.dynamic": ("AllowTools", "DynamicPrompt", "DynamicTools"),
        "middleware.guardrail": ("OutputGuardrail",),
        "middleware.log": ("HookCounts", "Logging"),
        "middleware.prompt_cache": ("PromptCacheGuard",),
        "middleware.redaction": ("Redaction",),
        "middleware.trim": ("Trim",),
        "middleware.usage": ("Accounts", "UsageAccounting"),
    },
)
