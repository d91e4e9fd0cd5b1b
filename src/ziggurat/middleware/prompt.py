"""Dynamic prompts: instructions computed for each model call."""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest

Write = Callable[[ModelRequest, Context], str | Awaitable[str | None] | None]
"""Returns the instructions for a model request, or None to leave them unchanged."""


class DynamicPrompt(Middleware):
    """Replaces the instructions of each model request by those that a function returns.

    ::

        DynamicPrompt(lambda request, ctx: f"{request.instructions}\\nThe user is {ctx.scope[USER].name}.")

    Instructions that differ from step to step make a provider's prompt cache useless.

    Args:
        write: Called with the request and the context; sync or async. None leaves the instructions unchanged.
    """

    @checked
    def __init__(self, write: Write) -> None:
        self._write = write

    async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest | None:
        """Return the request with the instructions of the function."""
        written = self._write(request, ctx)
        text = await written if isinstance(written, Awaitable) else written
        if text is not None and not isinstance(text, str):
            raise ConfigurationError(f"the function of DynamicPrompt returns text or None, got {text!r}")
        return None if text is None else replace(request, instructions=text)
