"""The language of errors, docstrings and documents: that of Python's own documentation."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_docs import DOCUMENTS, ids
from tests.test_house import FILES, module_of

UNUSUAL = {  # a phrase, and what to say instead
    r"\b(is|are|was|were|be|being) told\b": "gets, is reported",
    r"\btold (of|apart|so)\b": "is reported, is described",
    r"\bwhat is looked for\b": "the text to search for",
    r"\bright to (write|drive|change)\b": "the lease",
    r"\bof \w+ \w+ none (is|are) known\b": "... are not supported",
    r"\bnone is known here\b": "... are not supported",
    r"\bwaits still\b": "is still pending",
    r"\bdecided so\b": "decided like this",
    r"\bstands alone\b": "name the problem",
    r"\bset apart\b": "is in quarantine",
    r"\bpiece by piece\b": "in pieces",
    r"\bon trial\b": "trial calls",
    r"\blooks into one\b": "reads one",
    r"\bat the door\b": "at once, where it is passed",
    r"\bwhat came of\b": "the outcome, the result",
    r"\band no more(\.|:)": "only",
    r"\bno more than .* may be\b": "at most",
    r"\bwithout end\b": "endless, infinitely",
    r"\bas it is there\b": "unchanged",
    r"\b(is|are) said\b(?! (of|to)\b)": "is described",
    r"\bhears?\b": "receives",
    r"\bto mend\b|\bmended\b": "correct, repair",
    r"\bwhose \w+ is it\b": "name what is missing",
    r"\bno async one\b": "not an async function",
    r"\bleave \S+( \S+)? away\b": "omit",
    r"\bby another hand\b": "by another program",
    r"\bcannot be looked at\b": "cannot be read",
    r"\b(is|are) kept here\b": "in this store",
    r"\bgoes on already\b": "is already running",
    r"\bsaid nothing\b": "returned no text",
    r"\bis no (part|export|ModelRequest|memory but)\b": "is not a",
    r"\bwas (not )?begun\b": "was started",
    r"\bunder way elsewhere\b": "in progress elsewhere",
}
EXPECTED = {
    "ziggurat.models.react_protocol.prompt": "recorded conversations hold this prompt word for word",
    "ziggurat.memory.contradiction": "it is about what a sentence says",
    "ziggurat.agents.knowledge": "recorded runs hold this description of a tool word for word",
}
VAGUE = {"given", "told", "kept", "made", "held", "found", "asked", "said", "shown", "taken", "wanted", "heard", "gone"}
"""Participles that say what happened to a value rather than what it is: name a variable after what it holds."""

_FENCE = re.compile(r"^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)


def texts_in(source: str) -> Iterator[str]:
    """Yield the texts of a module: docstrings and messages, the values in f-strings left out."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def bound_in(source: str) -> Iterator[str]:
    """Yield the names of the variables and parameters in the functions of a module."""
    functions = [
        each for each in ast.walk(ast.parse(source)) if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    for node in (node for function in functions for node in ast.walk(function)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            yield node.name


def unusual_in(text: str) -> list[str]:
    """Return the phrases in a text that are not ordinary English, with what to say instead."""
    text = " ".join(text.split())
    return [f"{match[0]!r}: say {better}" for phrase, better in UNUSUAL.items() for match in re.finditer(phrase, text)]


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_messages_and_docstrings_are_ordinary_english(path: Path) -> None:
    if module_of(path) not in EXPECTED:
        assert not [found for text in texts_in(path.read_text(encoding="utf-8")) for found in unusual_in(text)]


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_variables_are_named_after_what_they_hold(path: Path) -> None:
    assert not VAGUE & set(bound_in(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=ids)
def test_documents_are_ordinary_english(path: Path) -> None:
    assert not unusual_in(_FENCE.sub("", path.read_text(encoding="utf-8")))


def test_unusual_phrases_are_found() -> None:
    assert unusual_in("nothing was decided, it waits still; another\nis told of it")
    assert not unusual_in("another process now holds the lease")
