"""The answer to a question once a tool has returned its result."""

__all__ = ["answer_grammar", "answer_prompt", "plain_answer", "rendered"]

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ziggurat.messages.parts import ToolResult
from ziggurat.models.local.kinds import words_of
from ziggurat.models.local.phrases import parts_of, runs_in

_EXAMPLES = (
    ("How much is 3 plus 4?", "calculator", "7", "The answer is 7."),
    ("Do I need sunglasses in Athens?", "weather", "sunny", "The weather in Athens is sunny."),
    ("Where is my order 881?", "find_order", "on its way", "Your order is on its way."),
    ("Is it late in Lima?", "clock", "07:30", "The time in Lima is 07:30."),
    ("What is the area of a 5 by 6 room?", "area", "30 square meters", "The area is 30 square meters."),
    ("Tell Bob that I am late.", "send_message", "sent", "The message is sent."),
)
_LONGEST_SENTENCE = 160
_LONGEST_VALUE = 2
"""The maximum of words in a result to put into a sentence; a longer result is shown as it is."""
_QUESTION = re.compile(
    r"\?|^(?:who|what|what's|where|when|which|why|how|is|are|was|were|does|do|did|has|have)\b", re.IGNORECASE
)
_FAILED = re.compile(r"\b(?:no|not|none|fail\w*|error|unknown|cannot|unable|denied|refused)\b|n't\b", re.IGNORECASE)
_RELATIONS = ("in", "of", "for", "at")
_VERBS = ("is", "are")


def rendered(result: ToolResult) -> str:
    """Return a tool's result as text for a sentence; lists and objects become ``name: value`` pairs."""
    value = result.value()
    try:
        return re.sub(r"\s+", " ", _as_text(value)).strip() if not isinstance(value, str) else value.strip()
    except RecursionError:  # nested hundreds of levels deep
        return result.text.strip()


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return ", ".join(f"{words_of(str(key))}: {_as_text(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_as_text(part) for part in value) if value else "nothing"
    return json.dumps(value)


def plain_answer(request: str, result: ToolResult) -> str | None:
    """Return the answer if no model is needed for it: for an error, several words, a long text or a list.

    It contains the result unchanged. None for a value of a few words, which the model puts into a sentence.
    """
    said = rendered(result)
    tool = words_of(result.name)
    if result.error is not None:
        return f"I could not get an answer: {tool} failed with: {said or result.error}"
    if not said:
        return "Done."
    value = result.value()
    if isinstance(value, bool):
        return "No." if not value else "Yes." if _QUESTION.search(request.strip()) else "Done."
    if isinstance(value, Mapping | list):
        return f"Here is what {tool} says: {said}" + ("" if said.endswith((".", "!", "?")) else ".")
    if len(said) > _LONGEST_SENTENCE or "\n" in said or (said.count(" ") >= 3 and said[-1] in ".!?"):
        return said
    if len(said.split()) > _LONGEST_VALUE:
        return _introduce(request, said)
    return None


def _introduce(request: str, said: str) -> str:
    """Return a result of several words as a sentence."""
    end = "" if said.endswith((".", "!", "?")) else "."
    if not said[0].islower():
        return f"{said}{end}"
    if _FAILED.search(said):
        return f"The answer was: {said}{end}"
    return f"{'Here is what I found' if _QUESTION.search(request.strip()) else 'Done'}: {said}{end}"


def answer_prompt(request: str, result: ToolResult) -> str:
    """Return a prompt of examples and the question, which ends where the answer begins."""
    shown = [
        f"Question: {question}\nTool {tool} says: {said}\nAnswer: {answer}\n"
        for question, tool, said, answer in _EXAMPLES
    ]
    line = re.sub(r"\s+", " ", request).strip()
    return "\n".join((*shown, f"Question: {line}\nTool {result.name} says: {rendered(result)}\nAnswer:"))


def answer_grammar(request: str, result: ToolResult) -> str:
    """Return a grammar for one plain sentence, ``The ... is RESULT.``, with words of the question in the gap.

    The model chooses the subject, but can neither omit the result nor invent another.
    """
    said = rendered(result)
    heard = [text for text, _, _ in parts_of(runs_in(request, ())) if text not in said and len(text) > 1]
    things = ["answer", *dict.fromkeys((words_of(result.name).split()[-1], *(_low(text) for text in heard)))]
    end = "" if said.endswith((".", "!", "?")) else "."
    return (
        f"root ::= lead thing (relation article? name)? verb {_quote(f' {said}{end}')}\n"
        'lead ::= " The " | " Your "\n'
        'article ::= "the " | "your "\n'
        f"thing ::= {_either(things)}\n"
        f"relation ::= {_either(f' {word} ' for word in _RELATIONS)}\n"
        f"name ::= {_either(heard or ['it'])}\n"
        f"verb ::= {_either(f' {word}' for word in _VERBS)}\n"
    )


def _low(text: str) -> str:
    """Return words for use within a sentence: a leading capital may only mark the start of the question."""
    return text[:1].lower() + text[1:] if text[1:].islower() else text


def _either(words: Iterable[str]) -> str:
    return " | ".join(_quote(word) for word in words if word.isprintable())


def _quote(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
