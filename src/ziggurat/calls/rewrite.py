"""Rewrite the conversation: middleware may shorten or change it before each model call.

look up the record > rewrite > check > record; repeated when the model reports that its context window is exceeded.
"""

from typing import Protocol

from msgspec.structs import replace

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.hooks import MIDDLEWARE, hooked
from ziggurat.calls.model_call import ask_model
from ziggurat.core.codec import digest
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ContextOverflow
from ziggurat.core.service import fact
from ziggurat.journal.entries import Entered, Result
from ziggurat.journal.journal import journal_of
from ziggurat.messages.conversation import Conversation, OriginalMessages, Rewrite, Transcript
from ziggurat.messages.events import Compacted
from ziggurat.messages.message import Message
from ziggurat.messages.middleware import Middleware, RewriteRequest
from ziggurat.messages.model import WINDOW, Model, ModelRequest, ModelResponse
from ziggurat.messages.overflow import overflow_of
from ziggurat.messages.usage import request_tokens
from ziggurat.messages.validation import validate_rewrite


def rewriters(ctx: Context) -> "Rewriters | None":
    chain = ctx.scope.get(MIDDLEWARE)
    hooks = chain.hooks["rewrite"] if chain is not None else ()
    return Rewriters(hooks) if hooks else None


class Rewritable(Protocol):
    """A run of a loop; the first `complete` messages of its conversation are final, and may be rewritten."""

    conversation: Conversation
    complete: int
    start: int

    def request(self) -> ModelRequest: ...
    def past(self) -> OriginalMessages | None: ...


class Rewriters:
    """The middleware that may rewrite one run's conversation, and the messages from before it was rewritten."""

    def __init__(self, middlewares: tuple[Middleware, ...]) -> None:
        self.middlewares = middlewares
        self._said: list[Message] = []
        self._since = 0
        self._rewritings: list[Rewrite] = []
        self._measured = (0, 0)  # tokens counted by the provider, and for how many messages
        self._turns = self._seen = 0
        self._fixed: int | None = None

    def past(self) -> OriginalMessages | None:
        return OriginalMessages(tuple(self._said), self._since, tuple(self._rewritings)) if self._rewritings else None

    async def ask_model(self, run: Rewritable, model: Model, ctx: Context, at: str, *, name: str) -> ModelResponse:
        """Ask a model; offer the conversation for rewriting before that, and again if it is too long for the model."""
        place = at.replace("/model", "/rewrite")
        call = ctx.at(at)
        tries = 1
        known = journal_of(ctx).find(call.path)
        unasked = known is None or not known.outcomes
        if at.endswith("/model"):  # not when the model is only asked again
            await self._offer(run, self._rewrite_request(run, model), ctx, place, live=unasked)
        if known is not None and unasked:  # a failed call is repeated: apply the recorded rewritings first
            while await self._offer(
                run, replace(self._rewrite_request(run, model), tries=tries), ctx, place, live=False
            ):
                tries += 1
        while True:
            try:
                response = await ask_model(model, run.request(), call, name=name)
            except Exception as error:
                overflow = overflow_of(error)
                if overflow is None:
                    raise
                request = replace(self._rewrite_request(run, model), overflow=overflow, tries=tries)
                before = run.conversation.view().size()
                if not await self._offer(run, request, ctx, place):
                    raise
                if run.conversation.view().size() >= before:
                    raise ContextOverflow(f"the conversation was rewritten but made no shorter: {overflow}") from error
                call = call.again()
                tries += 1
            else:
                usage = response.usage
                counted = (usage.input or 0) + (usage.output or 0) if usage.input else 0
                self._measured = (counted, len(run.conversation) + 1)
                return response

    def _rewrite_request(self, run: Rewritable, model: Model) -> RewriteRequest:
        """Return the size of the next request; each message is examined only once."""
        request = run.request()
        messages = Transcript(run.conversation, run.complete)
        for index in range(self._seen, len(messages)):
            message = messages[index]
            self._turns += message.role == "user" and message.origin is None
        self._seen = len(messages)
        if self._fixed is None:
            self._fixed = request_tokens(request) - request.messages.size() // 4
        counted, length = self._measured
        if counted:
            tokens = counted + (request.messages.size() - run.conversation.view().first(length).size()) // 4
        else:
            tokens = self._fixed + request.messages.size() // 4
        return RewriteRequest(messages, model, tokens, self._fixed, self._turns, fact(model, WINDOW))

    async def _offer(
        self, run: Rewritable, request: RewriteRequest, ctx: Context, place: str, *, live: bool = True
    ) -> bool:
        """Offer the conversation to each in order until one rewrites it; recorded rewritings are applied instead."""
        journal = journal_of(ctx)
        for number, middleware in enumerate(self.middlewares, request.tries * len(self.middlewares) + 1):
            at = ctx.at(f"{place}-{number}")
            rewriting = await _recorded_rewriting(request, at)
            replayed = rewriting is not None
            if rewriting is None and live and not journal.replaying:
                rewriting = await _call_rewrite(middleware, request, at)
            elif rewriting is None:
                journal.skip(at)
            if rewriting is None or not rewriting.changes:
                continue
            before = len(run.conversation)
            self._apply(run, rewriting)
            ctx.scope[AGENT_CALL].conversation = run.conversation
            if ctx.listens(Compacted):
                await ctx.emit(
                    Compacted(
                        at.path, rewriting.by, rewriting.start, rewriting.end, before, len(run.conversation), replayed
                    )
                )
            return True
        return False

    def _apply(self, run: Rewritable, rewriting: Rewrite) -> None:
        """Start a new log with the rewritten conversation; the messages of the old log are kept in `past`."""
        log = run.conversation.log
        self._said += log[self._since : run.complete]
        self._rewritings.append(rewriting)
        shorter = apply_rewriting(log[: run.complete], rewriting)
        run.conversation = Conversation([*shorter, *log[run.complete :]], len(self._rewritings))
        run.complete = self._since = len(shorter)
        self._measured = (0, 0)
        self._turns = self._seen = 0


def apply_rewriting(messages: list[Message], rewriting: Rewrite) -> list[Message]:
    return [*messages[: rewriting.start], *rewriting.messages, *messages[rewriting.end :]]


async def _recorded_rewriting(request: RewriteRequest, ctx: Context) -> Rewrite | None:
    journal = journal_of(ctx)
    record = journal.find(ctx.path)
    result = None if record is None else record.result
    if result is None:
        return None
    return await journal.answer(ctx, result, result.name, request.messages, Rewrite)


async def _call_rewrite(middleware: Middleware, request: RewriteRequest, ctx: Context) -> Rewrite | None:
    rewriting: object = await hooked(middleware, "rewrite", request, ctx, ctx)
    if not isinstance(rewriting, Rewrite):  # it is still the request
        return None
    _check(middleware, request, rewriting)
    replaced = request.messages[rewriting.start : rewriting.end]
    rewriting = replace(rewriting, by=rewriting.by or middleware.name, replaced=digest(replaced) if replaced else "")
    journal = journal_of(ctx)
    await journal.write(Entered(ctx.path, middleware.name, None, None, journal.watch.elapsed))
    await journal.write(Result(ctx.path, middleware.name, request.messages, rewriting, (), journal.watch.elapsed))
    return rewriting


def _check(middleware: Middleware, request: RewriteRequest, rewriting: Rewrite) -> None:
    messages = list(request.messages)
    if not 0 <= rewriting.start <= rewriting.end <= len(messages):
        raise ConfigurationError(
            f"{middleware.name} rewrites messages {rewriting.start} to {rewriting.end} of {len(messages)}"
        )
    rewritten = apply_rewriting(messages, rewriting)
    wrong = validate_rewrite(messages, rewritten) if rewritten else ["no message is left"]
    if wrong and not validate_rewrite(messages, messages):  # it could be sent before
        raise ConfigurationError(f"{middleware.name} broke the conversation: {wrong[0]}")
