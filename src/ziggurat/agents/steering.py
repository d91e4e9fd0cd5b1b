"""Steer a run in progress from outside: stop it after a step, give it a message, or redirect it.

Each act is recorded at its own path, ``steering-1``, ``steering-2`` ..., with the place in the run where it took
effect. A run that is resumed or replayed applies the recorded acts at the same places.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import get_args

from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.core.codec import as_type
from ziggurat.core.context import Context
from ziggurat.core.path import step_of
from ziggurat.core.service import Fact
from ziggurat.core.settings import checked
from ziggurat.core.tasks import StopSignal
from ziggurat.journal.journal import journal_of
from ziggurat.messages.conversation import Place, Steer, Verb
from ziggurat.messages.events import Steered
from ziggurat.messages.message import Message, ToolResult
from ziggurat.messages.middleware import Middleware
from ziggurat.runs.control import STEERING, RunControl

_VERBS = frozenset(get_args(Verb))
_TOLD = ("inject", "redirect")


class Steerable(Middleware):
    """Limits how an agent may be steered: ``Agent(..., middleware=[Steerable("cancel")])``. Without it, in every way.

    Args:
        verbs: Any of ``"cancel"``, ``"inject"`` and ``"redirect"``; none forbids all.
    """

    @checked
    def __init__(self, *verbs: Verb) -> None:
        self.verbs: frozenset[Verb] = frozenset(verbs)

    @staticmethod
    def among(middlewares: Iterable[Middleware]) -> frozenset[str]:
        permitted: frozenset[str] = _VERBS
        for each in middlewares:
            if isinstance(each, Steerable):
                permitted &= each.verbs
        return permitted


STEERABLE: Fact[frozenset[str] | None] = Fact("steerable", None)
"""The verbs by which an agent may be steered; None for what has no loop of its own, which can only be cancelled."""


class StoppedAfterStep(StopSignal):
    """Raised when a run stops after a step as requested."""


_PLACES: tuple[Place, ...] = ("before", "response", "tools")
"""The places of a step, in order."""


class Steering:
    """Applies steering to one run, from its record and its mailbox."""

    def __init__(self, ctx: Context, mailbox: RunControl | None) -> None:
        self._ctx = ctx
        self._mailbox = mailbox
        self._number = 0
        self._due: list[Message] = []
        self._reached = _reached(ctx) if journal_of(ctx).reopened else (0, 0)
        if mailbox is not None:
            mailbox.open = True

    def ends(self) -> None:
        """Accept no more steering, because the run is about to stop."""
        if self._mailbox is not None:
            self._mailbox.open = False

    async def before(self, step: int) -> list[Message]:
        """Return the messages to add before the model call of a step.

        Raises:
            StoppedAfterStep: the run was cancelled before this step.
        """
        steers = await self._apply(step, "before", ("cancel", *_TOLD))
        if any(steer.verb == "cancel" for steer in steers):
            raise StoppedAfterStep
        due, self._due = self._due, []
        return due

    async def upon_response(self, step: int) -> bool:
        """Apply the acts that arrived during the model call; return whether the run was redirected."""
        return any(steer.verb == "redirect" for steer in await self._apply(step, "response", _TOLD))

    @property
    def waits(self) -> bool:
        """Whether there are messages for the model's next request."""
        return bool(self._due)

    async def until_redirected(
        self, step: int, calls: Callable[[], Awaitable[tuple[ToolResult, ...]]]
    ) -> tuple[ToolResult, ...] | None:
        """Make the tool calls of a step; return None if the run is redirected before they have ended."""
        if not self._recorded(step, "tools"):
            mailbox = None if self._is_past(step, "tools") else self._mailbox
            if mailbox is None:
                return await calls()
            if not mailbox.has_redirect:
                with mailbox.interrupting():
                    return await calls()
        await self._apply(step, "tools", _TOLD)
        return None

    async def _apply(self, step: int, place: Place, verbs: tuple[str, ...]) -> list[Steer]:
        """Return the acts that take effect at this place: first the recorded ones, then those in the mailbox."""
        steers: list[Steer] = []
        if self._mailbox is not None and self._mailbox.arriving:
            await asyncio.wait(self._mailbox.arriving)
        replaying = journal_of(self._ctx).replaying
        while True:
            steer, known = self._recorded(step, place), True
            if steer is None:
                steer, known = self._new(step, place, verbs), False
            if steer is None:
                return steers
            at = self._ctx.at(f"steering-{self._number + 1}")
            self._number += 1
            outdated = steer.verb == "cancel" and known and (not replaying or self._went_on(steer))
            if not outdated:
                self._due.extend(steer.messages)  # before the wait, which may be cancelled: the act is recorded then
                steers.append(steer)
            await at.note("steering", steer)
            if outdated:
                continue  # it stopped the run then, and the run has been resumed since
            if at.listens(Steered):
                await at.emit(Steered(at.path, steer.verb, steer.step, known))

    def _went_on(self, steer: Steer) -> bool:
        """Return whether a run that was stopped before a step was continued."""
        return journal_of(self._ctx).find(f"{self._ctx.path}/step-{steer.step}/model") is not None

    def _next(self) -> Steer | None:
        record = journal_of(self._ctx).find(f"{self._ctx.path}/steering-{self._number + 1}")
        result = None if record is None else record.result
        return None if result is None else as_type(result.value, Steer)

    def _recorded(self, step: int, place: Place) -> Steer | None:
        steer = self._next()
        return steer if steer is not None and (steer.step, steer.place) == (step, place) else None

    def _is_past(self, step: int, place: Place) -> bool:
        """Return whether the record goes on after this place, so that nothing can take effect here any more."""
        return (step, _PLACES.index(place)) < self._reached

    def _new(self, step: int, place: Place, verbs: tuple[str, ...]) -> Steer | None:
        if self._mailbox is None or self._next() is not None or self._is_past(step, place):  # what is recorded first
            return None
        act = self._mailbox.take(verbs)
        return None if act is None else Steer(act.verb, act.messages, step, place, act.posted)


def _reached(ctx: Context) -> tuple[int, int]:
    """Return how far the agent of a continued run had come: the step, and the number of the place in it."""
    journal, reached = journal_of(ctx), (0, 0)
    for path in journal.paths():
        agent, step, call = step_of(path, ctx.path)
        record = journal.find(path)
        if call.startswith("tool-"):
            reached = max(reached, (step, _PLACES.index("tools")))
        elif path == f"{agent}/step-{step}/{call}" and record is not None and (record.result or record.pending):
            reached = max(reached, (step, _PLACES.index("response")))
    return reached


def steering(ctx: Context) -> Steering | None:
    """Return the steering of a run that begins; None if it has no mailbox and no recorded steering."""
    mailbox = ctx.scope.get(STEERING)
    if mailbox is not None and mailbox.depth != ctx.scope[AGENT_CALL].depth:
        mailbox = None  # this agent is below the steered one
    if mailbox is None and journal_of(ctx).find(f"{ctx.path}/steering-1") is None:
        return None
    return Steering(ctx, mailbox)
