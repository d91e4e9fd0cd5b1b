"""Fork a run: start a new one with the first steps of a recorded one; or replay it, as a whole or in part."""

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import SHAPE_VERSION, as_type, digest
from ziggurat.core.context import JOURNAL, Context
from ziggurat.core.path import is_beneath, is_model_call, parent_of, upwards
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal, journal_of
from ziggurat.journal.withdrawn import flows_in
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.conversation import Steer
from ziggurat.messages.prompts import Prompt, request_of
from ziggurat.messages.recorded import RecordedStep, recorded_steps
from ziggurat.runs.options import Live
from ziggurat.runs.runs import Runs
from ziggurat.tools.fork_effects import ForkEffects

_STEP = re.compile(r"step-(\d+)(/|$)")


def fork_entries(
    before: LocalJournal,
    agent: str,
    run_id: str,
    origin: entries.Origin,
    prompt: Prompt | None,
    labels: object,
    at: float,
) -> list[entries.JournalEntry]:
    """Return the entries that a fork starts with; a prompt is added at its step, or at step 1 replaces the question."""
    step = origin.step
    before.reopen(origin.run_id, 0.0)  # the end of the original is not one of its steps
    record = [
        replace(each, posted=0) if isinstance(each, entries.Decided) else each  # the inbox of the fork is empty
        for each in before.entries
        if not isinstance(each, entries.Tried) or before.is_current(each)
    ]
    is_flow = agent in flows_in(record)
    steps = [] if is_flow else recorded_steps(record, agent)[1]
    if is_flow:
        _check_call(record, agent, origin, prompt)
    else:
        _check_step(steps, step, origin.run_id, prompt)
    begun = record[0]
    assert isinstance(begun, entries.Opened)
    if begun.forked is not None:
        origin = replace(origin, earlier=(begun.forked.run_id, *begun.forked.earlier))
    labels = begun.labels if labels is None else labels
    opened = replace(begun, run_id=run_id, version=SHAPE_VERSION, at=at, forked=origin, labels=labels)
    if step == 1 and prompt is not None:
        turns = as_type(begun.request, AgentRequest).messages[:-1]
        return [replace(opened, request=AgentRequest((*turns, *request_of(prompt).messages)))]
    if is_flow:
        return [opened, *_before_call(record, agent, step)]
    prefix = list(_before(record, agent, step))
    if prompt is not None:
        last = steps[step - 2]
        steer = Steer("inject", request_of(prompt).messages, step, "before")
        if not last.calls:  # it was the answer: the prompt comes after it
            steer = replace(steer, step=last.number, place="response")
        number = 1 + sum(_is_steering(entry, agent) for entry in prefix)
        prefix.append(entries.Result(f"{agent}/steering-{number}", "steering", steer, steer))
    return [opened, *prefix]


def calls_of(record: Iterable[entries.JournalEntry], flow: str) -> dict[str, int]:
    """Return the number of each call that a flow has made, from 1, in the order in which they are recorded."""
    calls: dict[str, int] = {}
    for entry in record:
        if entry.path.startswith(flow + "/"):
            calls.setdefault(entry.path[len(flow) + 1 :].partition("/")[0], len(calls) + 1)
    return calls


def _check_call(
    record: Iterable[entries.JournalEntry], flow: str, origin: entries.Origin, prompt: Prompt | None
) -> None:
    calls = len(calls_of(record, flow))
    if not 1 <= origin.step <= calls + 1:
        raise errors.ConfigurationError(
            f"the run {origin.run_id!r} cannot be forked at step {origin.step}: it can at 1 to {calls + 1}"
        )
    if prompt is not None and origin.step > 1:
        raise errors.ConfigurationError("a flow gets another input only where it begins: fork it with at=1")


def _before_call(record: Iterable[entries.JournalEntry], flow: str, number: int) -> Iterable[entries.JournalEntry]:
    """Yield the entries of the calls of a flow before the call with a number, each whole, and its own beginning."""
    calls = calls_of(record, flow)
    for entry in record:
        call = entry.path[len(flow) + 1 :].partition("/")[0] if entry.path.startswith(flow + "/") else ""
        if calls[call] < number if call else entry.path == flow and isinstance(entry, entries.Entered):
            yield entry


def _check_step(steps: list[RecordedStep], step: int, run_id: str, prompt: Prompt | None) -> None:
    complete = next((each.number - 1 for each in steps if not each.complete), len(steps))
    if not 1 <= step <= complete + 1:
        there = "only at step 1" if not complete else f"at steps 1 to {complete + 1}"
        raise errors.ConfigurationError(f"the run {run_id!r} cannot be forked at step {step}: it can {there}")
    if step > 1 and step > len(steps) and not steps[-1].calls and prompt is None:
        raise errors.ConfigurationError(
            f"the run {run_id!r} answered in step {step - 1}; to continue from there, give the fork a prompt"
        )


def _before(record: Iterable[entries.JournalEntry], agent: str, step: int) -> Iterable[entries.JournalEntry]:
    """Yield the entries before a step in program order: whole earlier steps, and all that precedes the first step."""
    reached = False
    for entry in record:
        if not entry.path or not is_beneath(entry.path, agent):
            continue
        if entry.path == agent:
            if not isinstance(entry, entries.Result | entries.Failure):
                yield entry
            continue
        place = entry.path[len(agent) + 1 :]
        match = _STEP.match(place)
        if match is not None:
            reached = reached or int(match[1]) >= step
            if int(match[1]) < step:
                yield entry
        elif _is_steering(entry, agent):
            assert isinstance(entry, entries.Result)
            steer = as_type(entry.value, Steer)
            if steer.step < step or (steer.step == step and steer.place == "before"):
                yield entry
        elif not reached:
            yield entry


def _is_steering(entry: entries.JournalEntry, agent: str) -> bool:
    place = entry.path[len(agent) + 1 :]
    return isinstance(entry, entries.Result) and place.startswith("steering-") and "/" not in place


def ids_with_origins(ctx: Context, *facts: object) -> list[str]:
    """Return an id made of a call and facts, and those it had in the runs from which the run of the call was forked."""
    opened = journal_of(ctx).entries[0] if JOURNAL in ctx.scope else None
    forked = opened.forked if isinstance(opened, entries.Opened) else None
    origins = () if forked is None else (forked.run_id, *forked.earlier)
    keys = [ctx.idempotency_key, *(f"{run_id}:{ctx.path}" for run_id in origins)]
    return [digest([key, *facts]) for key in keys]


async def effects_of(runs: Runs, origin: entries.Origin) -> ForkEffects | None:
    """Return how the calls with side effects of a fork are answered, None if they are made."""
    if origin.effects == "live":
        return None
    if origin.effects == "refuse":
        return ForkEffects()
    recorded: dict[str, tuple[str, object]] = {}
    with suppress(errors.RunNotFound):  # the original run may have been removed
        for entry in (await runs.read(origin.run_id)).entries:
            if isinstance(entry, entries.Result) and not is_model_call(entry.path):
                recorded[entry.path] = (entries.fingerprint(entry.request), entry.value)
    return ForkEffects(recorded)


_WITHIN = re.compile(r"(^|/)step-\d+(/|$)")


class PartialJournal(LocalJournal):
    """The record of a run whose tools, or whose models, are called again, and nothing else."""

    def __init__(self, whole: Sequence[entries.JournalEntry], live: Live) -> None:
        super().__init__("replay")
        self.replaying = False  # composites are not compared as a whole, only the calls in them
        self.live = live
        self.compared_with: list[entries.JournalEntry] = list(whole)  # those of calls that are made again, too
        self._entered = {entry.path for entry in whole if isinstance(entry, entries.Entered)}
        self._flows = flows_in(whole)
        self._made = {path for entered in self._entered for path in upwards(entered)}
        record = whole[:-1] if isinstance(whole[-1], entries.Ended) else whole
        self.take_over(each for entry in record if (each := self._kept(entry)) is not None)

    def missing(self, path: str, what: str, /) -> None:
        if not self.is_live(path) and path not in self._made:
            super().missing(path, what)

    def is_live(self, path: str) -> bool:
        return (self.live == "tools") == (_is_of_tool(path) or self._is_of_flow(path))

    def _is_of_flow(self, path: str) -> bool:
        """Return whether a call is made by a flow, not by an agent within it."""
        above = (each for each in upwards(parent_of(path)) if each in self._entered)
        return next(above, "") in self._flows

    def _kept(self, entry: entries.JournalEntry) -> entries.JournalEntry | None:
        """Return an entry unless it answers a call that is made again, or a composite."""
        if isinstance(entry, entries.Ended):
            return replace(entry, waits=None)  # which counts the entries of the whole record
        answers = not isinstance(entry, entries.Tried | entries.Intent | entries.Returned)
        return entry if answers or (entry.path not in self._made and not self.is_live(entry.path)) else None


def _is_of_tool(path: str) -> bool:
    """Return whether a path is a tool call or a call made directly by a tool, not by an agent within it."""
    _, tool, within = path.rpartition("/tool-")
    return bool(tool) and _WITHIN.search(within) is None


def replay_journal(record: Sequence[entries.JournalEntry], live: Live, *, strict: bool) -> LocalJournal:
    journal = LocalJournal("replay", record) if live == "nothing" else PartialJournal(record, live)
    journal.strict = strict
    journal.incomplete = not isinstance(record[-1], entries.Ended)
    return journal
