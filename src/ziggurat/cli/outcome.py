"""The end of a run: its exit code, its answer, and why there is none."""

from collections.abc import Sequence
from typing import TextIO

from ziggurat.cli.terminal import note, shell_word, show_mistake, write, write_json
from ziggurat.core.codec import encode
from ziggurat.journal.store import UNFINISHED
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, PendingItem
from ziggurat.messages.formatting import call_text, end_text, plural

COMPLETED = 0  # there is an answer, or the run stopped where it should
STOPPED = 1  # the run failed or was stopped early; 2 is wrong usage, or something is not installed
SUSPENDED = 3  # the run waits for decisions
INTERRUPTED = 130  # the user pressed Ctrl-C


def code_of(stop: stops.Stop) -> int:
    if isinstance(stop, (stops.Completed, stops.ToolCalled, stops.StopCondition, stops.Continued)):
        return COMPLETED
    if isinstance(stop, stops.Suspended):
        return SUSPENDED
    return INTERRUPTED if isinstance(stop, stops.Cancelled) else STOPPED


def undecided(run: AgentRun) -> list[PendingItem]:
    return [item for item in run.pending if item.needs_decision]


def write_answer(run: AgentRun, out: TextIO, *, was_shown: bool = False) -> bool:
    answer = run._answer
    if isinstance(answer, str):
        text = answer or run.text
        if text and not was_shown:
            write(text, out)
        return bool(text)
    try:
        write_json(encode(answer), out)
    except TypeError:
        write(str(answer), out)
    return True


def write_outcome(run: AgentRun, out: TextIO, where: str | None, *, was_shown: bool) -> int:
    done = code_of(run.stop) == COMPLETED
    if done or isinstance(run.stop, stops.Incomplete):
        answers = write_answer(run, out, was_shown=was_shown)
        if done and not answers and isinstance(run.stop, stops.Completed):
            note("the model's answer is empty")
    return report(run, where)


def report(run: AgentRun, where: str | None) -> int:
    code = code_of(run.stop)
    if code != COMPLETED:
        if undecided(run):
            note("nobody could be asked: decisions are made on a terminal, without --json")
        explain(run)
        if can_go_on(run):
            tell_how_to_go_on(run.id, where, undecided(run))
    return code


def can_go_on(run: AgentRun) -> bool:
    """Return whether to resume a run may lead further: not if a wait in it was decided against it."""
    return stops.status_of(run.stop) in UNFINISHED and not (run.cause is not None and run.cause.decided)


def explain(run: AgentRun) -> None:
    """Report why a run did not complete, and what can be done, in one line; a mistake in the user's code with where."""
    reason = end_text(run)
    if isinstance(run.stop, stops.Failed):
        if run.cause is not None and run.cause.error is not None:
            show_mistake(run.cause.error)
        note(f"the run failed: {reason.removeprefix('Failed: ')}")
    elif isinstance(run.stop, stops.Suspended):
        explain_waits(run.pending)
    else:
        more = {stops.MaxSteps: " (--max-steps allows more)", stops.TimedOut: " (--timeout allows more)"}
        told = run.cause is not None and run.cause.text  # else it used up its own time, or its own steps
        note(f"the run stopped early: {run.error if told else reason + more.get(type(run.stop), '')}")


def explain_waits(pending: Sequence[PendingItem]) -> None:
    items = [item for item in pending if item.needs_decision]
    calls = "; ".join(call_text(item.call) for item in items)
    waits = [f"for {plural(len(items), 'decision')}: {calls}"] if items else []
    waits += [item.reason for item in pending if not item.needs_decision]
    note(f"suspended: it waits {', and '.join(waits)}")


def tell_how_to_go_on(run_id: str, where: str | None, pending: Sequence[PendingItem] = ()) -> None:
    if where is None:
        return
    how = f"ziggurat resume {shell_word(run_id)}{where}"
    if pending:
        which = f" {shell_word(pending[0].id)}" if len(pending) > 1 else ""
        ways = "--happened RESULT or --did-not-happen" if pending[0].interrupted else "(or --deny REASON)"
        if pending[0].stage == "question":
            ways = "--answer JSON_OR_TEXT (or --deny REASON)"
        how = f"ziggurat approve {shell_word(run_id)}{which}{where} {ways}"
    note(f"to continue it: {how}")


def report_interrupted(run_id: str, where: str | None) -> int:
    note("interrupted")
    tell_how_to_go_on(run_id, where)
    return INTERRUPTED
