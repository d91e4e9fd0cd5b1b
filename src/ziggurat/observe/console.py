"""A listener that shows a run live on the terminal or in a notebook."""

from functools import singledispatchmethod
from types import TracebackType
from typing import TextIO

from ziggurat.core import event as core_events
from ziggurat.core.event import Event
from ziggurat.core.path import is_beneath
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.core.visible import visible
from ziggurat.messages import events, stops
from ziggurat.messages.agent import AgentRun, Answer, Approve, Deny, Happened, Modify
from ziggurat.messages.formatting import call_text, duration, end_text, plural, result_text, round_in, shortened
from ziggurat.messages.message import TextDelta, ThinkingDelta, ToolCall
from ziggurat.messages.usage import Usage
from ziggurat.observe.screen import LiveLine, Screen

_INDENT = 2
_NAMED = 5  # calls that the spinner names; they are written anew with each event
_TAIL = 1_000  # characters of an unfinished line that are shown live
_FINE = (stops.Completed, stops.ToolCalled, stops.StopCondition)


class ConsoleView:
    """Show text as it streams, tools with arguments, result and time, nested agents indented, and the token usage.

    If the file is not a terminal, plain text is written, without escape sequences; ``NO_COLOR`` is honoured. In a
    notebook it shows in the output of the cell. One view can be used for many runs, one after the other.

    ::

        with ConsoleView() as view:
            agent.run_sync("Rain in Paris tomorrow?", listeners=[view])

    Args:
        file: The output file; standard error by default, in a notebook standard output.
        text: Whether to show what models say and think, not only what they do.
        reasons: Whether the final line says why a run stopped; False for callers that say it themselves.
        terminal: Whether the file is a terminal; detected by default.
        width: Columns of the terminal; detected by default.

    Raises:
        ConfigurationError: a setting has a wrong value.
        MissingExtra: rich is not installed: ``pip install 'ziggurat[cli]'``.
    """

    @checked
    def __init__(
        self,
        file: TextIO | None = None,
        *,
        text: bool = True,
        reasons: bool = True,
        terminal: bool | None = None,
        width: PositiveInt | None = None,
    ) -> None:
        self.screen: Screen = Screen(file, terminal=terminal, width=width, live=self._live_lines, waiting=self._waiting)
        self._text = text
        self._reasons = reasons
        self._streams: dict[str, _Stream] = {}  # of the models that stream now; the first writes each line at once
        self._spoken: set[str] = set()  # the models whose text was written
        self._speaker = ""  # the agent that was named last
        self._agents: dict[str, str] = {}
        self._models: dict[str, str] = {}
        self._calls: dict[str, ToolCall] = {}
        self._last: str | None = None
        self._rounds: set[str] = set()
        self._used = Usage()

    def __enter__(self) -> "ConsoleView":
        self.screen.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restore the terminal, also when a run was interrupted."""
        self._end_streams("")
        self._forget("")
        self.screen.close()

    def __call__(self, event: Event) -> None:
        self._show(event)
        self.screen.animate(bool(self._models or self._calls or self._streams))

    # -- the agent of an event -----------------------------------------------------------------------------------

    def _owner(self, path: str) -> str:
        return max((agent for agent in self._agents if is_beneath(path, agent)), key=len, default="")

    def _depth(self, path: str) -> int:
        return max(0, sum(is_beneath(path, agent) for agent in self._agents) - 1)

    def _place(self, path: str) -> tuple[int, str]:
        """Return the indent for a path, and the name of its agent if that is a nested one."""
        depth = self._depth(path)
        return depth * _INDENT, self._agents.get(self._owner(path), "") if depth else ""

    def _line(self, path: str, *pieces: tuple[str, str], more: int = 0) -> None:
        self._last = None
        self.screen.line(*pieces, indent=self._depth(path) * _INDENT + more)

    def _forget(self, path: str) -> None:
        for known in (self._agents, self._models, self._calls):
            for each in [each for each in known if is_beneath(each, path)]:
                del known[each]

    # -- text that streams in ------------------------------------------------------------------------------------

    def _write_stream(self, path: str, *, to_the_end: bool = False) -> None:
        stream = self._streams[path]
        begins, text = not stream.begun, stream.take(to_the_end=to_the_end)
        if not text:
            return
        self.screen.refresh()  # so that nothing is written and live at the same time
        if stream.name and stream.owner != self._speaker:
            self.screen.line((f"{stream.name}:", "dim"), indent=stream.indent)
        self._speaker, self._last = stream.owner, None
        self._spoken.add(path)
        if stream.thinking and begins and not self.screen.terminal:
            text = f"(thinking) {text}"
        for line in visible(text).removesuffix("\n").split("\n"):
            self.screen.line((line, stream.style), indent=stream.indent)

    def _end_streams(self, path: str) -> None:
        for ended in [each for each in self._streams if is_beneath(each, path)]:
            self._write_stream(ended, to_the_end=True)
            del self._streams[ended]
        if self._streams:
            self._write_stream(next(iter(self._streams)))

    def _drop_streams(self, path: str) -> bool:
        for dropped in [each for each in self._streams if is_beneath(each, path)]:
            if dropped == next(iter(self._streams)):
                self._write_stream(dropped, to_the_end=True)
            del self._streams[dropped]
        written = {spoken for spoken in self._spoken if is_beneath(spoken, path)}
        self._spoken -= written
        return bool(written)

    def _live_lines(self) -> list[LiveLine]:
        # It is called in another thread: what it reads is copied first, which is one step for Python.
        streams = [(stream, tail) for stream in list(self._streams.values()) if (tail := stream.tail())]
        labels = [f"{stream.name}: " if stream.name and len(streams) > 1 else "" for stream, _ in streams]
        return [
            (label + tail, stream.style, stream.indent) for label, (stream, tail) in zip(labels, streams, strict=True)
        ]

    def _waiting(self) -> str:
        calls = [call.name for call in list(self._calls.values())] or list(self._models.values())
        names = calls[:_NAMED] + ([f"{len(calls) - _NAMED} more"] if len(calls) > _NAMED else [])
        spent = f" · {self._used.total:,} tokens so far" if self._used.total else ""
        return f"{', '.join(names)} …{spent}"

    # -- the display of each event -------------------------------------------------------------------------------

    @singledispatchmethod
    def _show(self, event: Event) -> None:
        """Show an event as a line; events without one, such as those of middleware hooks, are ignored."""
        text, style, more = _notice(event)
        if text:
            self._line(event.path, (text, style), more=more)

    @_show.register
    def _agent_started(self, event: events.AgentStarted) -> None:
        place = round_in(event.path)
        if place is not None and place[0] not in self._rounds:
            self._rounds.add(place[0])
            self._line(event.path, (place[1], "bold"), more=_INDENT)
        self._agents[event.path] = event.agent
        if self._depth(event.path) == 0:
            self._used = Usage()
            self._rounds.clear()

    @_show.register
    def _agent_ended(self, event: events.AgentEnded) -> None:
        self._end_streams(event.path)
        run = event.run
        figures = run.figures
        if self._depth(event.path):
            stopped = "" if isinstance(run.stop, stops.Completed) else f"{end_text(run)} · "
            own = self._agents.get(event.path, "agent")
            name = own if run.agent in ("", own) else f"{own} ({run.agent})"  # a team, and who answered in it
            self._line(event.path, (f"{name}: {stopped}{figures}", "dim"))
            self._forget(event.path)
            return
        self._forget(event.path)
        self._speaker = ""
        self.screen.animate(bool(self._models or self._calls or self._streams))
        self._end(run, figures)

    def _end(self, run: AgentRun, figures: str) -> None:
        if isinstance(run.stop, _FINE):
            why = "" if isinstance(run.stop, stops.Completed) else f"{end_text(run)} · "
            self.screen.line(("✓ ", "green"), (why + figures, "dim"))
            return
        mark, style = ("✗", "bold red") if isinstance(run.stop, stops.Failed) else ("■", "bold yellow")
        if isinstance(run.stop, stops.Suspended):
            mark = "‖"
        if self._reasons:
            self.screen.line((f"{mark} {end_text(run)}", style))
            self.screen.line((figures, "dim"), indent=_INDENT)
        else:
            self.screen.line((f"{mark} ", style), (figures, "dim"))

    @_show.register
    def _step_started(self, event: events.StepStarted) -> None:
        _, name = self._place(event.path)
        total = f" · {self._used.total:,} tokens so far" if self._used.total and not name else ""
        self._line(event.path, (f"{name + ' · ' if name else ''}step {event.step}{total}", "dim"))
        self._speaker = self._owner(event.path)

    @_show.register
    def _model_started(self, event: events.ModelStarted) -> None:
        self._models[event.path] = event.model

    @_show.register
    def _delta(self, event: events.Delta) -> None:
        delta = event.delta
        if not self._text or not isinstance(delta, (TextDelta, ThinkingDelta)) or not delta.text:
            return
        path, thinking = event.path, isinstance(delta, ThinkingDelta)
        stream = self._streams.get(path)
        if stream is None or stream.thinking != thinking:
            if stream is not None:
                self._write_stream(path, to_the_end=True)
            stream = self._streams[path] = _Stream(self._owner(path), *self._place(path), thinking)
        stream.pieces.append(delta.text)
        if "\n" in delta.text and path == next(iter(self._streams)):
            self._write_stream(path)

    @_show.register
    def _model_ended(self, event: events.ModelEnded) -> None:
        self._models.pop(event.path, None)
        self._used = self._used + event.response.usage
        self._end_streams(event.path)
        if event.response.finish not in ("stop", "tool_calls"):
            self._line(event.path, (f"the reply ended early: {event.response.finish}", "yellow"))

    @_show.register
    def _tool_started(self, event: events.ToolStarted) -> None:
        self._calls[event.path] = event.call
        self._call_line(event.path, event.call)

    def _call_line(self, path: str, call: ToolCall) -> None:
        width = max(30, self.screen.width - self._depth(path) * _INDENT - 4)
        text = call_text(call, width)
        self._line(path, ("● ", "cyan"), (text[: len(call.name)], "bold cyan"), (text[len(call.name) :], ""))
        self._last = path

    @_show.register
    def _tool_ended(self, event: events.ToolEnded) -> None:
        call = self._calls.pop(event.path, None)
        if call is None or self._last != event.path:
            self._call_line(event.path, event.call)
        self._forget(event.path)
        time = " (from the record)" if event.replayed else f"  {duration(event.seconds)}"
        width = max(30, self.screen.width - self._depth(event.path) * _INDENT - _INDENT - len(time) - 6)
        style = "" if event.result.error is None else "red"
        mark = ("→ ", "green") if event.result.error is None else ("✗ ", "red")
        self._line(event.path, mark, (result_text(event.result, width), style), (time, "dim"), more=_INDENT)

    @_show.register
    def _dropped(self, event: core_events.Dropped) -> None:
        self._models.pop(event.path, None)
        if self._drop_streams(event.path):
            reason = f"what was said there does not count: {shortened(event.why)}"
            self._line(event.path, (f"({'broken off' if event.why == 'CancelledError' else reason})", "yellow"))
        self._forget_below(event.path)

    def _forget_below(self, path: str) -> None:
        for known in (self._models, self._calls):
            for each in [each for each in known if is_beneath(each, path)]:
                del known[each]

    @_show.register
    def _retrying(self, event: core_events.Retrying) -> None:
        self._models[event.path] = "another try"
        wait = f" in {duration(event.delay)}" if event.delay else " now"
        self._line(event.path, (f"↻ try {event.attempt} failed, again{wait}: {shortened(event.error, 300)}", "yellow"))


class _Stream:
    """The text or the thoughts that a model streams in, as far as they are not written yet."""

    def __init__(self, owner: str, indent: int, name: str, thinking: bool) -> None:
        self.owner, self.indent, self.name, self.thinking = owner, indent, name, thinking
        self.style = "dim italic" if thinking else ""
        self.pieces: list[str] = []
        self.begun = False

    def take(self, *, to_the_end: bool) -> str:
        text = "".join(self.pieces)
        cut = len(text) if to_the_end else text.rfind("\n") + 1
        self.pieces, lines = [text[cut:]], text[:cut].rstrip() if to_the_end else text[:cut]
        lines = lines if self.begun else lines.lstrip()
        self.begun = self.begun or bool(lines)
        return lines

    def tail(self) -> str:
        return "".join(self.pieces[-_TAIL:])[-_TAIL:].rpartition("\n")[2]


def _notice(event: Event) -> tuple[str, str, int]:
    match event:
        case events.HandedOff():
            reason = f": {shortened(event.reason)}" if event.reason else ""
            return f"{event.source} hands over to {event.target}{reason}", "cyan", 0
        case events.ToolDelta():
            return f"{event.name}: {shortened(event.text)}", "dim", _INDENT
        case core_events.CacheHit():
            return "answered from a cache", "dim", 0
        case events.MemoryRecalled():
            return f"recalled of {event.owner}: {shortened('; '.join(event.memories), 300)}", "dim", 0
        case events.MemoryStored():
            return f"remembered for {event.owner}: {shortened('; '.join(event.memories), 300)}", "dim", 0
        case core_events.Queued():
            wait = "" if event.seconds is None else f", about {duration(event.seconds)}"
            return f"waits for its turn ({event.limit}, {event.ahead} ahead{wait})", "dim", 0
        case core_events.Joined():
            return "waits for the same call, which is in progress", "dim", 0
        case events.ApprovalRequested() if event.item.stage == "question":
            return f"‖ asks: {event.item.reason}", "yellow", _INDENT
        case events.ApprovalRequested():
            why = f" ({event.item.reason})" if event.item.reason else ""
            return f"‖ needs approval{why}: {call_text(event.item.call)}", "yellow", _INDENT
        case events.ApprovalDecided():
            return _decided(event.decision), "yellow", _INDENT
    text = _warning(event)
    return text and f"■ {shortened(text, 600)}", "yellow", 0


def _decided(decision: object) -> str:
    match decision:
        case Approve():
            return "approved"
        case Deny():
            return f"denied: {decision.reason}"
        case Modify():
            return f"approved with other arguments: {shortened(decision.text)}"
        case Happened():
            return f"it did happen: {shortened(decision.result)}"
        case Answer():
            return f"answered: {shortened(str(decision.value))}"
    return "it did not happen, and is run now"


def _warning(event: Event) -> str:
    match event:
        case events.Warned():
            return event.text
        case events.LoopWarning():
            return f"{event.tool} was called {event.count} times in the same way"
        case core_events.CircuitChanged():
            before, after = (state.replace("_", " ") for state in (event.before, event.after))
            return f"circuit breaker {event.circuit!r}: {before} → {after}"
        case core_events.UnderPressure():
            return f"{event.depth} calls are under way; from {event.hard} on calls are refused"
        case events.ToolAbandoned():
            left = plural(event.leaked, "call")
            return f"{event.name} did not stop when it was cancelled and was abandoned ({left} so far)"
        case core_events.Diverged():
            recorded, asked = shortened(event.recorded), shortened(event.asked)
            return f"{event.what} differs from the record, which is used: {recorded} was recorded, {asked} was asked"
    return ""
