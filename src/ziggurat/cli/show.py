"""``ziggurat show``: a run as a tree of its calls, in the order they ended, with time, tokens and cost."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal

import typer

from ziggurat.cli import options
from ziggurat.cli.agents import AgentOptions, options_in, rebuild
from ziggurat.cli.store import load_run
from ziggurat.cli.terminal import write
from ziggurat.core.codec import Raw, as_type, decode, encode
from ziggurat.core.entries import Decided, Ended, Entered, Failure, JournalEntry, LossAccepted, Opened, Pending, Result
from ziggurat.core.errors import ConfigurationError, JournalCorrupt, MissingExtra, described
from ziggurat.core.failures import place_of
from ziggurat.core.journal import LocalJournal
from ziggurat.core.json_lines import as_error
from ziggurat.core.path import is_question, is_tool_call, parent_of
from ziggurat.core.store import LogInfo
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import AgentRequest, AgentRun, decision_of
from ziggurat.messages.formatting import (
    call_text,
    duration,
    plural,
    result_text,
    round_in,
    shortened,
    stop_text,
    usage_text,
)
from ziggurat.messages.items import HandoffItem
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.pending import recorded_item
from ziggurat.messages.price import dollars, price_of_call
from ziggurat.messages.usage import Usage
from ziggurat.observe.tree import run_tree

_WIDTH = 100


def show(
    run: options.Run,
    drawing: Annotated[
        Literal["tree", "html", "mermaid", "svg", "diagram", "picture"] | None,
        typer.Option(
            "--as",
            help="Write the tree of its calls instead: as text, HTML, Mermaid, or a timeline in SVG; or a diagram (in "
            "Mermaid) or picture (in SVG) of its agent, plan or graph that marks how far it has come.",
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
      ziggurat show r-17 --as html > run.html
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
        picture = _RecordText(info, journal)
        lines = list(picture.lines())
        write("\n".join([*picture.head(), "", *lines]))
    else:
        tree = run_tree(journal.entries)
        forms = {"tree": tree.text, "html": tree.html, "mermaid": tree.mermaid, "svg": tree.svg}
        write(forms[drawing]().rstrip("\n"))


def _standing(run: str, store: str | None, agent: str | None, *, as_picture: bool) -> str:
    """Return what the agent of a run is made of, marked with how far the run has come."""
    found = rebuild(run, AgentOptions(agent=agent), store)

    async def standing() -> str:
        try:
            diagram = await found.agent.standing(found.id)
            return diagram.svg() if as_picture else diagram.mermaid()
        finally:
            await found.agent.store.close()

    return asyncio.run(standing())


class _RecordText:
    def __init__(self, info: LogInfo, journal: LocalJournal) -> None:
        self._info = info
        self._journal = journal
        self._usage = Usage(requests=0)
        self._prices: list[Decimal | None] = []
        self._listed = True
        self._models = self._tools = 0
        self._steps: set[str] = set()
        self._seconds = 0.0
        self._calls: dict[str, ToolCall] = {}
        self._latest: dict[str, float] = {}
        self._rounds: set[str] = set()

    def head(self) -> Iterator[str]:
        """Yield the lines about the run as a whole; iterate `lines` first, as they compute the sums."""
        info = self._info
        started = datetime.fromtimestamp(info.created, UTC).astimezone().isoformat(" ", "seconds")
        run = "  ".join(map(visible_line, (info.id, info.status, info.agent)))
        yield f"run     {run}  begun {started}"
        opened = self._journal.entries[0]
        if isinstance(opened, Opened) and opened.request is not None:
            yield f"asked   {shortened(as_type(opened.request, AgentRequest).messages[-1].text, _WIDTH)}"
            if opened.forked is not None:
                origin = opened.forked
                yield f"forked  from {visible_line(origin.run_id)} at step {origin.step}, effects: {origin.effects}"
        made = options_in(self._journal)
        if made is not None:
            yield f"made    {shortened(made.text(), 300)}"
        calls = f"{plural(self._models, 'model call')}, {plural(self._tools, 'tool call')}"
        figures = (plural(len(self._steps), "step"), calls, usage_text(self._usage), duration(self._seconds))
        yield f"sums    {' · '.join((*figures, *([dollars(self._prices)] if self._prices else ())))}"

    def lines(self) -> Iterator[str]:
        """Yield one line per recorded event: when, how long it took, and indented by its depth."""
        for number, entry in enumerate(self._journal.entries):
            line = self._text_of(entry, number)
            if line is None:
                continue
            place = round_in(entry.path)
            if place is not None and place[0] not in self._rounds:
                self._rounds.add(place[0])
                yield f"{'':>21} {'  ' * place[0].count('/')}{place[1]}"
            elapsed = float(getattr(entry, "elapsed", 0.0))
            took = self._took(entry, elapsed)
            self._seconds = max(self._seconds, elapsed)
            at = f"{elapsed:.2f} s" if elapsed else ""
            spent = duration(took) if took is not None else ""
            yield f"{at:>10} {spent:>9}  {'  ' * entry.path.count('/')}{visible_line(line)}"

    def _took(self, entry: JournalEntry, elapsed: float) -> float | None:
        """Return how long a call took: since the end of what came before it in its agent."""
        agent = parent_of(parent_of(entry.path))
        if isinstance(entry, Entered):
            self._latest[entry.path] = elapsed
            return None
        if not elapsed or not isinstance(entry, (Result, Failure)):
            return None
        step = parent_of(entry.path)
        began = self._latest.get(step) if is_tool_call(entry.path) else self._latest.get(agent)
        if is_question(entry.path):
            self._latest[step] = elapsed
        self._latest[agent] = max(elapsed, self._latest.get(agent, 0.0))
        return None if began is None else max(0.0, elapsed - began)

    def _text_of(self, entry: JournalEntry, number: int) -> str | None:
        name = entry.path.rpartition("/")[2]
        match entry:
            case Result() if is_question(entry.path):
                return self._answer(entry)
            case Result() if is_tool_call(entry.path):
                return self._result(entry, name)
            case Result():
                return self._other(entry, name)
            case Failure():
                error = as_error(entry.error)
                place = place_of(error)
                return f"{name}: failed: {shortened(described(error), _WIDTH)}{f' (at {place})' if place else ''}"
            case Entered(request=request) if request is not None:
                members = as_type(entry.setup, dict[str, str]).get("members")
                return f"{name}: entered{f', a team of {members}' if members else ''}"
            case Pending():
                why = f" ({entry.reason})" if entry.reason else ""
                if not recorded_item(entry, None).needs_decision:
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

    def _answer(self, entry: Result) -> str:
        response = as_type(entry.value, ModelResponse)
        step = parent_of(entry.path)
        self._models += 1
        self._steps.add(step)
        self._usage = self._usage + response.usage
        for number, call in enumerate(response.message.tool_calls, 1):
            self._calls[f"{step}/tool-{number}"] = call
        price = self._price(response, entry.name)
        text = "; ".join([shortened(response.text), *map(call_text, response.tool_calls)]).strip("; ")
        priced = "" if price is None else f", {dollars([price])}"
        return f"{entry.name}: {text or '(nothing)'}  [{usage_text(response.usage)}{priced}]"

    def _price(self, response: ModelResponse, name: str) -> Decimal | None:
        """Return the price of an answer, if it is known, and note it for the sum."""
        price = None
        provider, colon, _ = name.partition(":")
        if (colon or name == "local") and self._listed:  # others have no prices, and loading the list is slow
            try:
                price = price_of_call(response.usage, response.model or name, provider)
            except MissingExtra:
                self._listed = False
        self._prices.append(price)
        return price

    def _result(self, entry: Result, name: str) -> str:
        self._tools += 1
        place, _, _ = name.partition(":")
        call = self._calls.get(f"{parent_of(entry.path)}/{place}")
        call_line = entry.name if call is None else call_text(call, 60)
        return f"{call_line} → {result_text(as_type(entry.value, ToolResult))}"

    def _other(self, entry: Result, name: str) -> str:
        value = entry.value
        if isinstance(value, Raw):
            raw = value
            try:
                value = decode(raw, HandoffItem) if name == "handoff" else decode(raw, AgentRun)
            except JournalCorrupt:
                return f"{name}: {shortened(bytes(memoryview(raw)).decode())}"
        if isinstance(value, HandoffItem):
            reason = f": {shortened(value.reason)}" if value.reason else ""
            return f"{value.from_agent} hands over to {value.to_agent}{reason}"
        if isinstance(value, AgentRun):
            return self._ended(name, value)
        return f"{name}: {shortened(encode(value).decode())}"

    def _ended(self, name: str, run: AgentRun) -> str:
        own = name.partition("#")[0]
        return f"{name}{'' if run.agent in ('', own) else f' ({run.agent})'}: {stop_text(run.stop)}"
