"""What happens to the failure of a tool: a mistake of the programmer ends the run, the rest is logged for people."""

import logging
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.failures import is_unexpected, log_failure, mistake_in
from ziggurat.journal.entries import Result
from ziggurat.journal.journal import LocalJournal, journal_of

if TYPE_CHECKING:
    from ziggurat.middleware.secrets import Secrets


def note_failure(
    error: Exception, what: str, ctx: Context, follows: str = "the error is reported to the model"
) -> None:
    """Log an error that only the model would learn of, and what follows; keep it for the event of the call."""
    mistake = mistake_in(error)
    if mistake is not None:
        raise mistake
    if not is_unexpected(error):
        return
    call = ctx.scope.get(AGENT_CALL)
    if call is not None:
        if call.debug:
            raise error
        if call.failures is None:
            call.failures = {}
        call.failures[ctx.path] = error
    text = f"{what} failed at {ctx.path} ({follows})"
    log_failure(text, error, mask_of(journal_of(ctx), ctx.path), logging.WARNING)


def failure_at(ctx: Context, *, keep: bool = True) -> Exception | None:
    """Return the error that became the result of a call, if it was unexpected; forget it unless `keep` is given."""
    call = ctx.scope.get(AGENT_CALL)
    if call is None or call.failures is None:
        return None
    return call.failures.get(ctx.path) if keep else call.failures.pop(ctx.path, None)


def mask_of(journal: LocalJournal, path: str) -> Callable[[str], str]:
    """Return a function that masks secrets in a text: those of providers, and what is redacted in records at a path."""

    def mask(text: str) -> str:
        screened = journal.screened(Result(path, "log", None, without_keys(text)))
        return as_type(screened.value, str) if isinstance(screened, Result) else ""

    return mask


def without_keys(text: str) -> str:
    """Return a text with the keys of providers masked."""
    return _keys().masked(text)


@cache
def _keys() -> "Secrets":
    from ziggurat.middleware.secrets import Secrets

    return Secrets((), (), keys=True, emails=False, mask="[redacted]")
