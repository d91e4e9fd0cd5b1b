"""``ziggurat show``: a run as a tree of its calls, in the order they ended, with time, tokens and cost."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Literal

import typer

from ziggurat.cli import options
from ziggurat.cli.agents import options_in, rebuild
from ziggurat.cli.store import load_run, then_closed
from ziggurat.cli.terminal import write
from ziggurat.core.codec import as_type
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, described
from ziggurat.core.failures import place_of
from ziggurat.core.path import is_question, parent_of
from ziggurat.core.visible import visible_line
from ziggurat.journal.entries import (
    Decided,
    Ended,
    Entered,
    Failure,
    JournalEntry,
    LossAccepted,
    Opened,
    Pending,
    Result,
    as_error,
)
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo
from ziggurat.messages.agent import AgentRequest, AgentRun, decision_of
from ziggurat.messages.formatting import call_text, duration, figures, round_in, shortened, usage_text
from ziggurat.messages.message import ToolCall
from ziggurat.messages.usage import cost_text, tally_of
from ziggurat.observe.picture import diagram_svg
from ziggurat.observe.tree import RunNode, run_tree

_WIDTH = 100


def show(
    run: options.Run,
    drawing: Annotated[
        Literal["tree", "mermaid", "diagram", "picture"] | None,
        typer.Option(
            "--as",
            help="Write the tree of its calls instead: as text or Mermaid; or a diagram (in Mermaid) or picture "
            "(in SVG) of its agent, plan or graph that marks how far it has come.",
        ),
    ] = None,
    agent: options.Agent = None,
    store: options.Store = None,
) -> None:
    """Show a run: each call with its time, tokens and cost.

    The first column is the time at which a call ended, the second how long it took. Only its record is read; a diagram
    needs the agent as well.

    \b
    Examples:
      ziggurat show 3f2a
      ziggurat show r-17 --as mermaid > run.mmd
      ziggurat show r-17 --as picture --agent orders.py:graph > graph.svg
    """
    if drawing in ("diagram", "picture"):
        write(_standing(run, store, agent, as_picture=drawing == "picture").rstrip("\n"))
        return
    if agent is not None:
        raise ConfigurationError(
            "only a diagram needs the agent, everything else is on record: --as diagram --agent ..."
        )
    info, journal = load_run(run, store)
    if drawing is None:
        write("\n".join([*_head(info, journal), "", *_lines(journal)]))
    else:
        tree = run_tree(journal.entries)
        forms = {"tree": tree.text, "mermaid": tree.mermaid}
        write(forms[drawing]().rstrip("\n"))


def _standing(run: str, store: str | None, agent: str | None, *, as_picture: bool) -> str:
    """Return what the agent of a run is made of, marked with how far the run has come."""
    found = rebuild(run, options.AgentOptions(agent=agent), store)
    diagram = then_closed(found.agent.store, found.agent.standing(found.id))
    return diagram_svg(diagram) if as_picture else diagram.mermaid()


def _head(info: LogInfo, journal: LocalJournal) -> Iterator[str]:
    started = datetime.fromtimestamp(info.created, UTC).astimezone().isoformat(" ", "seconds")
    run = "  ".join(map(visible_line, (info.id, info.status, info.agent)))
    yield f"run     {run}  begun {started}"
    opened = journal.entries[0]
    if isinstance(opened, Opened) and opened.request is not None:
        yield f"asked   {shortened(as_type(opened.request, AgentRequest).messages[-1].text, _WIDTH)}"
        if opened.forked is not None:
            origin = opened.forked
            yield f"forked  from {visible_line(origin.run_id)} at step {origin.step}, effects: {origin.effects}"
    made = options_in(journal)
    if made is not None:
        yield f"made    {shortened(made.text(), 300)}"
    answers = [each for each in journal.entries if isinstance(each, Result) and is_question(each.path)]
    steps = len({parent_of(each.path) for each in answers})
    tally, seconds = tally_of(journal), max(map(_elapsed, journal.entries))
    yield f"sums    {figures(steps, tally.model_calls, tally.tool_calls, tally.usage, tally.by_model, seconds)}"


def _elapsed(entry: JournalEntry) -> float:
    return float(getattr(entry, "elapsed", 0.0))


def _lines(journal: LocalJournal) -> Iterator[str]:
    """Yield one line per recorded event: when, how long it took, and indented by its depth."""
    nodes = {node.path: node for node in run_tree(journal.entries).nodes}
    rounds: set[str] = set()
    for number, entry in enumerate(journal.entries):
        line = _text_of(entry, number, nodes)
        if line is None:
            continue
        place = round_in(entry.path)
        if place is not None and place[0] not in rounds:
            rounds.add(place[0])
            yield f"{'':>21} {'  ' * place[0].count('/')}{place[1]}"
        elapsed, spent = _elapsed(entry), ""
        if elapsed and isinstance(entry, (Result, Failure)) and (began := nodes[entry.path].began) is not None:
            spent = duration(max(0.0, elapsed - began))
        at = f"{elapsed:.2f} s" if elapsed else ""
        yield f"{at:>10} {spent:>9}  {'  ' * entry.path.count('/')}{visible_line(line)}"


def _text_of(entry: JournalEntry, number: int, nodes: Mapping[str, RunNode]) -> str | None:
    name = entry.path.rpartition("/")[2]
    match entry:
        case Result():
            return _result(entry, name, nodes[entry.path])
        case Failure():
            error = as_error(entry.error)
            place = place_of(error)
            return f"{name}: failed: {shortened(described(error), _WIDTH)}{f' (at {place})' if place else ''}"
        case Entered(request=request) if request is not None:
            members = as_type(entry.setup, dict[str, str]).get("members")
            return f"{name}: entered{f', a team of {members}' if members else ''}"
        case Pending():
            why = f" ({entry.reason})" if entry.reason else ""
            if not entry.asks:
                return f"{name}: waits {entry.reason}"
            return f"{name}: waits for a decision{why}: {call_text(as_type(entry.request, ToolCall))} [{entry.id}]"
        case Decided():
            decision = decision_of(entry.decision)
            details = "; ".join(str(getattr(decision, field)) for field in decision.__struct_fields__)
            return f"{name}: {type(decision).__name__.lower()} {shortened(details)}".rstrip()
        case Opened() if number:
            return "went on"
        case LossAccepted():
            return f"the loss of entries {number + 1} to {entry.acknowledged} was accepted"
        case Ended():
            return f"ended: {entry.stop}"
    return None


def _result(entry: Result, name: str, node: RunNode) -> str:
    if node.kind == "tool" or name == "handoff":
        return node.text
    if node.usage is not None:
        price = cost_text({entry.name: node.usage}) if ":" in entry.name else ""  # others have no prices
        priced = f", {price}" if price.startswith("$") else ""
        return f"{entry.name}: {node.text or '(nothing)'}  [{usage_text(node.usage)}{priced}]"
    who = ""
    if node.kind == "agent":
        with suppress(JournalCorrupt):  # the typed result of a flow
            answered = as_type(entry.value, AgentRun).agent
            who = f" ({answered})" if answered not in ("", name.partition("#")[0]) else ""
    return f"{name}{who}: {node.text}"
