"""``ziggurat show``: a run as a tree of its calls, in the order they ended, with time, tokens and cost."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from typer import Option

from ziggurat.cli import agents, options, store as stores, terminal
from ziggurat.core.codec import as_error, as_type
from ziggurat.core.errors import ConfigurationError, described
from ziggurat.core.failures import place_of
from ziggurat.core.path import is_question, parent_of
from ziggurat.core.visible import visible_line
from ziggurat.journal import entries
from ziggurat.journal.journal import LocalJournal
from ziggurat.journal.store import LogInfo
from ziggurat.messages import formatting
from ziggurat.messages.agent import decision_of, recorded_item
from ziggurat.messages.usage import cost_text, tally_of
from ziggurat.observe.picture import diagram_svg
from ziggurat.observe.tree import RunNode, run_tree
from ziggurat.serve.rows import prompt_of

_WIDTH = 100


def show(
    run: options.Run,
    drawing: Annotated[
        Literal["tree", "mermaid", "diagram", "picture"] | None,
        Option(
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
      ziggurat show r-17 --as picture --agent orders.py:graph > graph.svg
    """
    if drawing in ("diagram", "picture"):
        terminal.write(_standing(run, store, agent, as_picture=drawing == "picture").rstrip("\n"))
        return
    if agent is not None:
        raise ConfigurationError("only a diagram needs the agent, as in --as diagram --agent ...")
    info, journal = stores.load_run(run, store)
    if drawing is None:
        terminal.write("\n".join([*_head(info, journal), "", *_lines(journal)]))
    else:
        tree = run_tree(journal.entries)
        forms = {"tree": tree.text, "mermaid": tree.mermaid}
        terminal.write(forms[drawing]().rstrip("\n"))


def _standing(run: str, store: str | None, agent: str | None, *, as_picture: bool) -> str:
    found = agents.rebuild(run, options.AgentOptions(agent=agent), store)
    diagram = stores.then_closed(found.agent.store, found.agent.standing(found.id))
    return diagram_svg(diagram) if as_picture else diagram.mermaid()


def _head(info: LogInfo, journal: LocalJournal) -> Iterator[str]:
    started = datetime.fromtimestamp(info.created, UTC).astimezone().isoformat(" ", "seconds")
    run = "  ".join(map(visible_line, (info.id, info.status, info.agent)))
    yield f"run     {run}  begun {started}"
    opened = journal.entries[0]
    if isinstance(opened, entries.Opened) and opened.request is not None:
        yield f"asked   {formatting.shortened(prompt_of(opened), _WIDTH)}"
        if opened.forked is not None:
            origin = opened.forked
            yield f"forked  from {visible_line(origin.run_id)} at step {origin.step}, effects: {origin.effects}"
    made = agents.options_in(journal)
    if made is not None:
        yield f"made    {formatting.shortened(made.text(), 300)}"
    answers = [each for each in journal.entries if isinstance(each, entries.Result) and is_question(each.path)]
    steps = len({parent_of(each.path) for each in answers})
    tally, seconds = tally_of(journal), max(map(_elapsed, journal.entries))
    spent = formatting.figures(steps, tally.model_calls, tally.tool_calls, tally.usage, tally.by_model, seconds)
    yield f"sums    {spent}"


def _elapsed(entry: entries.JournalEntry) -> float:
    return float(getattr(entry, "elapsed", 0.0))


def _lines(journal: LocalJournal) -> Iterator[str]:
    nodes = {node.path: node for node in run_tree(journal.entries).nodes}
    rounds: set[str] = set()
    for number, entry in enumerate(journal.entries):
        line = _text_of(entry, number, nodes)
        if line is None:
            continue
        place = formatting.round_in(entry.path)
        if place is not None and place[0] not in rounds:
            rounds.add(place[0])
            yield f"{'':>21} {'  ' * place[0].count('/')}{place[1]}"
        elapsed, spent = _elapsed(entry), ""
        if (
            elapsed
            and isinstance(entry, (entries.Result, entries.Failure))
            and (began := nodes[entry.path].began) is not None
        ):
            spent = formatting.duration(max(0.0, elapsed - began))
        at = f"{elapsed:.2f} s" if elapsed else ""
        yield f"{at:>10} {spent:>9}  {'  ' * entry.path.count('/')}{visible_line(line)}"


def _text_of(entry: entries.JournalEntry, number: int, nodes: dict[str, RunNode]) -> str | None:
    name = entry.path.rpartition("/")[2]
    match entry:
        case entries.Result():
            return _result(entry, name, nodes[entry.path])
        case entries.Failure():
            error = as_error(entry.error)
            where = f" (at {place})" if (place := place_of(error)) else ""
            return f"{name}: failed: {formatting.shortened(described(error), _WIDTH)}{where}"
        case entries.Entered(request=request) if request is not None:
            members = as_type(entry.setup, dict[str, str]).get("members")
            return f"{name}: entered{f', a team of {members}' if members else ''}"
        case entries.Pending():
            why = f" ({entry.reason})" if entry.reason else ""
            if not entry.asks:
                return f"{name}: waits {entry.reason}"
            call = formatting.call_text(recorded_item(entry, None).call)
            return f"{name}: waits for a decision{why}: {call} [{entry.id}]"
        case entries.Decided():
            decision = decision_of(entry.decision)
            details = "; ".join(str(getattr(decision, field)) for field in decision.__struct_fields__)
            return f"{name}: {type(decision).__name__.lower()} {formatting.shortened(details)}".rstrip()
        case entries.Opened() if number:
            return "went on"
        case entries.LossAccepted():
            return f"the loss of entries {number + 1} to {entry.acknowledged} was accepted"
        case entries.Ended():
            return f"ended: {entry.stop}"
    return None


def _result(entry: entries.Result, name: str, node: RunNode) -> str:
    if node.kind == "tool" or name == "handoff":
        return node.text
    if node.usage is not None:
        price = cost_text({entry.name: node.usage}) if ":" in entry.name else ""  # others have no prices
        priced = f", {price}" if price.startswith("$") else ""
        return f"{entry.name}: {node.text or '(nothing)'}  [{formatting.usage_text(node.usage)}{priced}]"
    return f"{name}{f' ({node.speaker})' if node.speaker else ''}: {node.text}"
