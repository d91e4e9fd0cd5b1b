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


_TOLD: tuple[Verb, ...] = ("inject", "redirect")
_VERBS_AT: dict[Place, tuple[Verb, ...]] = {"before": ("cancel", *_TOLD), "response": _TOLD, "tools": _TOLD}
"""The acts that take effect at each place of a step, in the order of the places."""

_PLACES = tuple(_VERBS_AT)


class Steering:
    def __init__(self, ctx: Context, mailbox: RunControl | None) -> None:
        self._ctx = ctx
        self._mailbox = mailbox
        self._number = 0
        self._reached = _reached(ctx) if journal_of(ctx).reopened else (0, 0)
        self.due: list[Message] = []  # messages for the model's next request
        if mailbox is not None:
            mailbox.open = True

    def ends(self) -> None:
        if self._mailbox is not None:
            self._mailbox.open = False

    async def apply(self, step: int, place: Place) -> set[Verb]:
        """Apply the acts that take effect at this place, first the recorded ones, and return what they do."""
        applied: set[Verb] = set()
        if self._mailbox is not None and self._mailbox.arriving:
            await asyncio.wait(self._mailbox.arriving)
        while True:
            steer = self._recorded()
            known, mailbox = steer is not None, self._mailbox_at(step, place)
            if steer is None and mailbox is not None:
                act = mailbox.take(_VERBS_AT[place])
                steer = None if act is None else Steer(act.verb, act.messages, step, place, act.posted)
            if steer is None or (steer.step, steer.place) != (step, place):
                return applied
            self._number += 1
            at = self._ctx.at(f"steering-{self._number}")
            outdated = steer.verb == "cancel" and known and self._went_on(steer)
            if not outdated:
                self.due.extend(steer.messages)  # before the wait, which may be cancelled: the act is recorded then
                applied.add(steer.verb)
            await at.note("steering", steer)
            if not outdated and at.listens(Steered):
                await at.emit(Steered(at.path, steer.verb, steer.step, known))

    async def until_redirected(
        self, step: int, calls: Callable[[], Awaitable[tuple[ToolResult, ...]]]
    ) -> tuple[ToolResult, ...] | None:
        recorded = self._recorded()
        if recorded is None or (recorded.step, recorded.place) != (step, "tools"):
            mailbox = self._mailbox_at(step, "tools")
            if mailbox is None:
                return await calls()
            if (results := await mailbox.unless_redirected(calls)) is not None:
                return results
        await self.apply(step, "tools")
        return None

    def _recorded(self) -> Steer | None:
        record = journal_of(self._ctx).find(f"{self._ctx.path}/steering-{self._number + 1}")
        result = None if record is None else record.result
        return None if result is None else as_type(result.value, Steer)

    def _mailbox_at(self, step: int, place: Place) -> RunControl | None:
        """Return the mailbox; None if the record goes on after this place, so that nothing can take effect any more."""
        return self._mailbox if (step, _PLACES.index(place)) >= self._reached else None

    def _went_on(self, steer: Steer) -> bool:
        journal = journal_of(self._ctx)
        return not journal.replaying or journal.find(f"{self._ctx.path}/step-{steer.step}/model") is not None


def _reached(ctx: Context) -> tuple[int, int]:
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
    mailbox = ctx.scope.get(STEERING)
    if mailbox is not None and mailbox.depth != ctx.scope[AGENT_CALL].depth:
        mailbox = None  # this agent is below the steered one
    if mailbox is None and journal_of(ctx).find(f"{ctx.path}/steering-1") is None:
        return None
    return Steering(ctx, mailbox)
