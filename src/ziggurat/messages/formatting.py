"""Short texts for people: calls, results, stops, durations and token counts; and a run as HTML, for notebooks."""

import re
from collections.abc import Mapping, Sequence
from html import escape

import msgspec

from ziggurat.core.errors import InvalidArguments
from ziggurat.core.visible import visible
from ziggurat.messages import stops
from ziggurat.messages.agent import AgentRun, AgentStep
from ziggurat.messages.message import Text, ToolCall, ToolResult
from ziggurat.messages.usage import Usage, cost_text

_ROUND = re.compile(r"(.*/((?:round|turn|scores|choice)-\d+))(?:/|$)")
_SPACES = re.compile(r"\s+")


def shortened(text: str, width: int = 100) -> str:
    line = visible(_SPACES.sub(" ", text[: width * 8]).strip())
    return line if len(line) <= width else line[: max(0, width - 1)].rstrip() + "…"


def call_text(call: ToolCall, width: int = 100) -> str:
    try:
        arguments = ", ".join(f"{name}={msgspec.json.encode(value).decode()}" for name, value in call.parsed().items())
    except InvalidArguments:
        arguments = call.arguments
    return shortened(f"{call.name}({arguments})", width)


def result_text(result: ToolResult, width: int = 100) -> str:
    text = result.text
    if not isinstance(result.content, str):
        others = [f"[{type(part).__name__.lower()}]" for part in result.content if not isinstance(part, Text)]
        text = " ".join((text, *others))
    if result.error is not None and not text.startswith(f"{result.error}: "):
        text = f"{result.error}: {text}"
    return shortened(text, width) or "(nothing)"


def round_in(path: str) -> tuple[str, str] | None:
    match = _ROUND.match(path)
    return None if match is None else (match[1], match[2].replace("-", " "))


def duration(seconds: float) -> str:
    if seconds < 0.001:
        return f"{seconds * 1000:.1f} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole // 60} min {whole % 60} s"


def plural(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def usage_text(usage: Usage) -> str:
    """Return the input and output tokens as text; unknown numbers are called unknown, estimated ones "about"."""
    if usage.input is None and usage.output is None:
        return "tokens unknown"
    read = "unknown" if usage.input is None else f"{usage.input:,}"
    written = "unknown" if usage.output is None else f"{usage.output:,}"
    cached = f" ({usage.cache_read:,} cached)" if usage.cache_read else ""
    return f"tokens: {'about ' if usage.estimated else ''}{read} in{cached}, {written} out"


def figures(
    steps: int, model_calls: int, tool_calls: int, usage: Usage, models: Mapping[str, Usage], seconds: float
) -> str:
    parts = [plural(steps, "step")]
    if model_calls != steps:
        parts.append(plural(model_calls, "model call"))
    if tool_calls:
        parts.append(plural(tool_calls, "tool call"))
    parts.append(usage_text(usage))
    if cost := cost_text(models):
        parts.append(cost)
    return " · ".join((*parts, duration(seconds)))


_WITHOUT_DETAILS = {
    stops.Completed: "completed",
    stops.Suspended: "Suspended: it waits",
    stops.Cancelled: "Cancelled",
}


def end_text(run: AgentRun) -> str:
    told = "" if run.cause is None else run.cause.text
    return f"{stops.status_of(run.stop)}: {told}" if told else stop_text(run.stop)


def stop_text(stop: stops.Stop) -> str:
    match stop:
        case stops.Completed() | stops.Suspended() | stops.Cancelled():
            return _WITHOUT_DETAILS[type(stop)]
        case stops.Continued(run_id):
            return f"Continued: the run {run_id} goes on"
        case stops.Incomplete(finish):
            return f"Incomplete: the answer is not whole ({finish})"
        case stops.MaxSteps(limit):
            return f"MaxSteps: it took {plural(limit, 'step')}, as many as it may"
        case stops.ToolCalled(name):
            return f"ToolCalled: {name} was called, which ends the run"
        case stops.StopCondition(reason):
            return f"StopCondition: {reason}" if reason else "StopCondition: the condition held"
        case stops.LoopDetected(tool, count):
            return f"LoopDetected: {tool} was called {count} times in the same way"
        case stops.BudgetExceeded(kind, limit, used):
            return f"BudgetExceeded: the {kind} budget of {limit:g} allows no more ({used:g} used)"
        case stops.TimedOut(seconds):
            used_up = f"it used up its {round(seconds, 2) or seconds:g} s" if seconds else "a deadline passed"
            return f"TimedOut: {used_up}"
        case stops.ModelCallDenied(reason):
            return f"ModelCallDenied: {reason}"
        case stops.Failed(error, kind):
            return "Failed: " + (f"{kind}: {error}" if error != kind else kind)


_STEPS = 50  # the latest that are shown
_CALLS = 20  # of each step
_WIDTH = 300
_CELL = '<td style="text-align:left;vertical-align:top">'


def run_html(heading: str, steps: Sequence[AgentStep], answer: str) -> str:
    """Return a heading, a table of the steps with their tool calls, and the answer; of a team, with who said what."""
    # All texts are shortened to a line and escaped: what a model or a tool wrote is shown, never interpreted. The size
    # is bounded, however long the run was.
    left_out = len(steps) - _STEPS
    members = any(step.agent for step in steps)
    rows = [_row(step, members) for step in steps[-_STEPS:]]
    titles = ("step", *(["member"] if members else []), "calls", "results")
    if left_out > 0:
        cells = ("…", plural(left_out, "earlier step"), *[""] * (len(titles) - 2))
        rows.insert(0, f"<tr>{''.join(f'{_CELL}{cell}</td>' for cell in cells)}</tr>")
    head = f"<tr>{''.join(f'<th>{title}</th>' for title in titles)}</tr>"
    table = f"<table>{head}{''.join(rows)}</table>" if rows else ""
    return f"<div><b>{_text(heading)}</b>{table}<pre>{_text(answer, len(answer))}</pre></div>"


def _row(step: AgentStep, members: bool) -> str:
    thought = [f"<i>{_text(step.thought)}</i>"] if step.thought else []
    calls = [f"<code>{escape(call_text(call, _WIDTH))}</code>" for call in step.calls[:_CALLS]]
    marked = [("→" if each.error is None else "✗", result_text(each, _WIDTH)) for each in step.results[:_CALLS]]
    results = [f"{mark} {escape(text)}" for mark, text in marked]
    if len(step.calls) > _CALLS:
        calls.append(f"… {plural(len(step.calls) - _CALLS, 'more call')}")
    if members and step.answer:
        calls.append(_text(step.answer))
    columns = (
        str(step.index),
        *([_text(step.agent)] if members else []),
        "<br>".join(thought + calls),
        "<br>".join(results),
    )
    return f"<tr>{''.join(f'{_CELL}{column}</td>' for column in columns)}</tr>"


def _text(text: str, width: int = _WIDTH) -> str:
    return escape(shortened(text, width))
