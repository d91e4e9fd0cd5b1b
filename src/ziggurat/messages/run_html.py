"""A run as HTML, for notebooks."""

from collections.abc import Sequence
from html import escape

from ziggurat.messages.formatting import call_text, plural, result_text, shortened
from ziggurat.messages.step import AgentStep

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
    results = [_with_mark(result_text(each, _WIDTH), each.error is None) for each in step.results[:_CALLS]]
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


def _with_mark(text: str, fine: bool) -> str:
    return f"{'→' if fine else '✗'} {escape(text)}"


def _text(text: str, width: int = _WIDTH) -> str:
    return escape(shortened(text, width))
