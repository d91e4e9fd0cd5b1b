"""The run of an agent as far as it is on record, read without entering the agent."""

from msgspec.structs import replace

from ziggurat.core.path import parent_of
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.agent import AgentRun
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.recorded import recorded_steps
from ziggurat.messages.usage import tally_of


def recorded_run(journal: LocalJournal, path: str, empty: AgentRun) -> AgentRun:
    """Return an empty run of the agent at a path with its complete steps on record, and what they have cost."""
    request, steps = recorded_steps(journal.entries, path)
    if request is None:  # it was not entered
        return empty
    said = [*request]
    for step in steps:
        step.replies = step.replies[-1:]  # those before were refused, with words that are not on record
        said += step.messages() if step.complete else step.before
    record, tally = journal.find(path), tally_of(journal)
    began = 0.0 if record is None or record.entered is None else record.entered.elapsed
    return replace(
        empty,
        messages=Transcript.of(*said),
        start=len(request),
        usage=tally.usage,
        usage_by_model=tally.by_model,
        model_calls=tally.model_calls,
        tool_calls=tally.tool_calls,
        steps=sum(step.complete for step in steps) or sum(parent_of(each) == path for each in journal.paths()),
        seconds=max(0.0, journal.watch.elapsed - began),
    )
