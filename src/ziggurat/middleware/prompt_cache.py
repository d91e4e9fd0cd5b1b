"""A guard for providers' prompt caches: warns if the start of a request changes from step to step."""

from msgspec.structs import replace

from ziggurat.core.context import Context, Key
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.path import is_question
from ziggurat.core.service import Service
from ziggurat.core.settings import checked
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.events import Warned
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse

_PARTS = ("instructions", "tools", "output")


class _Layout:
    __slots__ = ("before", "rewritten")

    def __init__(self) -> None:
        self.before: ModelRequest | None = None  # the agent's previous request
        self.rewritten = 0  # how often the conversation was, before the hooks

    def note(self, request: ModelRequest) -> None:
        """Forget the previous messages if the conversation was rewritten on purpose since then."""
        rewritten = request.messages.mark().conversation.rewritten
        if rewritten > self.rewritten:
            self.rewritten = rewritten
            self.before = None if self.before is None else replace(self.before, messages=Transcript.of())

    def changes(self, request: ModelRequest) -> list[str]:
        """Return what differs from the previous request, and store this one."""
        before, self.before = self.before, request
        if before is None:
            return []
        changed = [f"the {name}" for name in _PARTS if getattr(request, name) != getattr(before, name)]
        messages, known = request.messages, before.messages
        one, other = known.mark(), messages.mark()
        if one.conversation is not other.conversation or other.length < one.length:  # else it only grew
            shared = min(len(messages), len(known))
            same = next((at for at in range(shared) if messages[at] != known[at]), shared)
            if same < len(known):
                changed.append(f"the conversation from message {same} on")
        return changed


class PromptCacheGuard(Middleware):
    """Warns or raises if a model request does not start like the previous one of the same agent.

    Providers charge the full price for everything after the first difference in instructions, tools and messages.
    List it first, so that it sees requests as all other hooks leave them. Compactions are intended, and not reported.

    Args:
        refuse: Raise instead of emitting the event `Warned`.
    """

    @checked
    def __init__(self, *, refuse: bool = False) -> None:
        self.refuse = refuse
        self._layout: Key[_Layout] = Key("prompt layout")

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        """Give each agent its own layout for the time that it runs."""
        return await agent(request, ctx.within(self._layout, _Layout()))

    async def before_model(self, request: ModelRequest, ctx: Context) -> None:
        layout = self._layout_at(ctx)
        if layout is not None:
            layout.note(request)

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Compare the request with the previous one.

        Raises:
            ConfigurationError: it starts differently, and `refuse` is set.
        """
        layout = self._layout_at(ctx)
        changed = layout.changes(request) if layout is not None else []
        if changed:
            text = f"the prompt cache is lost: {' and '.join(changed)} changed since the question before"
            if self.refuse:
                raise ConfigurationError(f"{ctx.path}: {text}")
            if ctx.listens(Warned):
                await ctx.emit(Warned(ctx.path, text))
        return await model(request, ctx)

    def _layout_at(self, ctx: Context) -> _Layout | None:
        """Return the layout for a question of an agent; None for others, such as for a summary."""
        return ctx.scope.get(self._layout) if is_question(ctx.path) else None
