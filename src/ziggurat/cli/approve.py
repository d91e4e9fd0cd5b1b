"""Decisions on pending calls: asked of the person at the terminal, or stated by a command."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress

from ziggurat.agents.runnable import Runnable
from ziggurat.cli.outcome import undecided
from ziggurat.cli.terminal import read_line, shell_word, write
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.visible import visible_line
from ziggurat.messages.agent import (
    AgentRun,
    Answer,
    Approve,
    Decision,
    Deny,
    DidNotHappen,
    Happened,
    Modify,
    PendingItem,
)
from ziggurat.messages.arguments import canonical
from ziggurat.messages.formatting import call_text, plural
from ziggurat.tools.decisions import fitting, normalize_at, question_of

_NO = "the person said no"
_WHETHER = "did it take effect? [y]es, [n]o and run it now, or say why it stays unknown: "
_QUESTION = "[y]es, [N]o, [e]dit the arguments, or say why not: "


def by_hand() -> bool:
    """Return whether a person can be asked: standard input is a terminal, and so is standard output or error."""
    return sys.stdin.isatty() and (sys.stdout.isatty() or sys.stderr.isatty())


Ask = Callable[[str], str | None]
Say = Callable[[str], None]


def ask_decisions(agent: Runnable, run: AgentRun, ask: Ask, say: Say) -> dict[str, Decision]:
    decisions: dict[str, Decision] = {}
    for item in undecided(run):
        decisions[item.id] = _decision(agent, item, ask, say)
    return decisions


def _decision(agent: Runnable, item: PendingItem, ask: Ask, say: Say) -> Decision:
    if item.stage == "question":
        return _ask_answer(item, ask, say)
    if item.interrupted:
        return _ask_whether_it_happened(item, ask, say)
    why = f" ({visible_line(item.reason)})" if item.reason else ""
    say(f"{visible_line(item.call.name)} needs approval{why}:\n  {item.shown}")
    while True:
        answer = (ask(_QUESTION) or "").strip()
        if answer.lower() in ("y", "yes"):
            return Approve()
        if answer.lower() in ("", "n", "no"):
            return Deny(_NO)
        if answer.lower() not in ("e", "edit"):
            return Deny(answer)
        arguments = _ask_arguments(agent, item, ask, say)
        if arguments is not None:
            return Modify(arguments)


def _ask_answer(item: PendingItem, ask: Ask, say: Say) -> Decision:
    """Ask the question of a flow or a tool until the answer fits; no answer refuses it."""
    say(visible_line(item.reason))
    if expected := _expected(item):
        say(f"  {expected}")
    while text := (ask("answer: ") or "").strip():
        try:
            return _answer_in(text, item)
        except InvalidArguments as error:
            say(visible_line(str(error)))
    return Deny(_NO)


def _answer_in(text: str, item: PendingItem) -> Decision:
    readings: list[object] = [text]
    with suppress(ValueError):
        readings.insert(0, json.loads(text))
    if question_of(item.call).answer.get("type") == "boolean" and text.lower() in ("y", "yes", "n", "no"):
        readings.insert(0, text.lower() in ("y", "yes"))
    misfits: list[InvalidArguments] = []
    for reading in readings:
        try:
            return fitting(item, Answer(reading), None)
        except InvalidArguments as error:
            misfits.append(error)
    raise misfits[0]


def _expected(item: PendingItem) -> str:
    schema = question_of(item.call).answer
    if choices := schema.get("enum"):
        return f"one of: {', '.join(visible_line(str(choice)) for choice in choices)}"
    if fields := schema.get("properties"):
        return visible_line(f"a JSON object with {', '.join(fields)}")
    return "true or false" if schema.get("type") == "boolean" else ""


def _ask_whether_it_happened(item: PendingItem, ask: Ask, say: Say) -> Decision:
    say(f"{visible_line(item.call.name)} was interrupted, and nobody knows whether it took effect:\n  {item.shown}")
    answer = (ask(_WHETHER) or "").strip()
    if answer.lower() in ("n", "no"):
        return DidNotHappen()
    if answer.lower() not in ("y", "yes"):
        return Deny(answer or "nobody has found out")
    return Happened(ask("its result: ") or "it was done")


def _ask_arguments(agent: Runnable, item: PendingItem, ask: Ask, say: Say) -> str | None:
    text = (ask("arguments, as JSON: ") or "").strip()
    if not text:
        return None
    try:
        fitting(item, Modify(text), normalize_at(agent, item.path))
    except InvalidArguments as error:
        say(str(error))
        return None
    arguments = canonical(text, item.call.name)
    say(f"  {arguments}")
    return arguments if (ask("run it with these? [y/N] ") or "").strip().lower() in ("y", "yes") else None


# -- a decision that a command states --------------------------------------------------------------------------------


def select(items: list[PendingItem], run_id: str, item: str | None, where: str) -> PendingItem:
    if not items:
        raise ConfigurationError(f"nothing waits for a decision in the run {run_id}")
    if item is not None and not item.strip():  # it is the beginning of every id
        raise ConfigurationError("which call? its id is empty; omit it where only one waits")
    selected = [each for each in items if item is None or each.id.startswith(item)]
    if len(selected) == 1:
        return selected[0]
    listed = "\n".join(f"  {visible_line(each.id)}  {call_text(each.call)}" for each in items)
    lack = f"no call, or more than one, begins with {item!r}" if item else f"{plural(len(items), 'call')} wait"
    raise ConfigurationError(
        f"{lack}; name one of them, as in ziggurat approve {shell_word(run_id)} {shell_word(items[0].id)}{where}:\n"
        f"{listed}"
    )


def stated_decision(item: PendingItem, command: str, way: str, text: str) -> Decision:
    """Return the option that was given as a decision that is valid for a call; approval without one."""
    if way == "--deny":
        return Deny(text.strip() or _NO)
    name = visible_line(item.call.name)
    if item.stage == "question" and way != "--answer":
        if not way and by_hand():
            return _ask_answer(item, read_line, write)
        expected = f", which takes {_expected(item)}" if _expected(item) else ""
        raise ConfigurationError(
            f"{visible_line(item.reason)!r} is a question{expected}; answer it with {command} --answer JSON_OR_TEXT"
        )
    if item.stage != "question" and way == "--answer":
        raise ConfigurationError(f"{name} is a call and no question: {command} lets it run, --deny REASON does not")
    if way in ("--happened", "--did-not-happen"):
        if not item.interrupted:
            raise ConfigurationError(
                f"{name} was not started yet, so {way} does not apply: {command} lets it run, --deny REASON does not"
            )
        return Happened(text) if way == "--happened" else DidNotHappen()
    if item.interrupted:
        raise ConfigurationError(
            f"{name} was interrupted, and nobody knows whether it took effect: find out, then add --happened RESULT "
            "if it did, --did-not-happen to run it now, or --deny REASON to leave it at that"
        )
    if not way:
        return Approve()
    try:
        if way == "--answer":
            return _answer_in(text, item)
        if not text.strip():
            raise InvalidArguments("there are no arguments; for none at all write '{}'")
        return Modify(canonical(text, item.call.name))
    except InvalidArguments as error:
        raise ConfigurationError(f"{way}: {error}; nothing was recorded, and the call still waits") from error
