"""The built-in middleware."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.middleware import Middleware as Middleware
    from ziggurat.middleware.dynamic import (
        AllowTools as AllowTools,
        DynamicPrompt as DynamicPrompt,
        DynamicTools as DynamicTools,
        Trim as Trim,
    )
    from ziggurat.middleware.log import Logging as Logging, PromptCacheGuard as PromptCacheGuard
    from ziggurat.middleware.redaction import Redaction as Redaction
    from ziggurat.middleware.wrapping import OutputGuardrail as OutputGuardrail, everywhere as everywhere
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
