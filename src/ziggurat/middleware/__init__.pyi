# Written by tests/test_names.py from __init__.py.
from ziggurat.messages.caller import CALLER as CALLER
from ziggurat.messages.caller import Caller as Caller
from ziggurat.messages.caller import ParsedAnswer as ParsedAnswer
from ziggurat.messages.middleware import Middleware as Middleware
from ziggurat.middleware.around import everywhere as everywhere
from ziggurat.middleware.dynamic import AllowTools as AllowTools
from ziggurat.middleware.dynamic import DynamicPrompt as DynamicPrompt
from ziggurat.middleware.dynamic import DynamicTools as DynamicTools
from ziggurat.middleware.guardrail import OutputGuardrail as OutputGuardrail
from ziggurat.middleware.log import HookCounts as HookCounts
from ziggurat.middleware.log import Logging as Logging
from ziggurat.middleware.prompt_cache import PromptCacheGuard as PromptCacheGuard
from ziggurat.middleware.redaction import Redaction as Redaction
from ziggurat.middleware.trim import Trim as Trim
from ziggurat.middleware.usage import Accounts as Accounts
from ziggurat.middleware.usage import UsageAccounting as UsageAccounting

__all__: list[str]
