"""The sentence that answers a question once a tool has given its result."""

__all__ = ["answer_grammar", "answer_prompt", "plain_answer", "rendered"]

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ziggurat.messages.parts import ToolResult
from ziggurat.models.local.kinds import words_of
from ziggurat.models.local.lexicon import words_in

_EXAMPLES = (
    ("How much is 3 plus 4?", "calculator", "7", "The answer is 7."),
    ("Do I need sunglasses in Athens?", "weather", "sunny", "The weather in Athens is sunny."),
    ("Where is my order 881?", "find_order", "on its way", "Your order is on its way."),
    ("Is it late in Lima?", "clock", "07:30", "The time in Lima is 07:30."),
    ("What is the area of a 5 by 6 room?", "area", "30 square meters", "The area is 30 square meters."),
    ("Tell Bob that I am late.", "send_message", "sent", "The message is sent."),
)
_FRAME = words_in("frame")
_LONGEST_SENTENCE = 160
_WORDS_BEFORE = 8


def rendered(result: ToolResult) -> str:
    """A tool's result in the words of a sentence: lists and objects become ``name: value`` pairs."""
    value = result.value()
    return re.sub(r"\s+", " ", _said(value)).strip() if not isinstance(value, str) else value.strip()


def _said(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return ", ".join(f"{words_of(str(key))}: {_said(part)}" for key, part in value.items())
    if isinstance(value, Sequence):
        return ", ".join(_said(part) for part in value) if value else "nothing"
    return json.dumps(value)


def plain_answer(result: ToolResult) -> str | None:
    """The answer where no model is needed for it: an error, a whole sentence, a long text or a list.

    None for a short value, which the model puts into a sentence.
    """
    said = rendered(result)
    tool = words_of(result.name)
    if result.error is not None:
        return f"I could not get an answer: {tool} failed with: {said or result.error}"
    if not said:
        return "Done."
    value = result.value()
    if isinstance(value, Mapping | list):
        return f"Here is what {tool} says: {said}" + ("" if said.endswith((".", "!", "?")) else ".")
    if len(said) > _LONGEST_SENTENCE or "\n" in said or (said.count(" ") >= 3 and said[-1] in ".!?"):
        return said
    return None


def answer_prompt(request: str, result: ToolResult) -> str:
    """The examples and then the question, ending where the answer begins."""
    shown = [
        f"Question: {question}\nTool {tool} says: {said}\nAnswer: {answer}\n"
        for question, tool, said, answer in _EXAMPLES
    ]
    line = re.sub(r"\s+", " ", request).strip()
    return "\n".join((*shown, f"Question: {line}\nTool {result.name} says: {rendered(result)}\nAnswer:"))


def answer_grammar(request: str, result: ToolResult) -> str:
    """A grammar for one sentence that holds the result as it is, framed by small words and words of the question.

    So the model chooses how to say it, and can neither leave the result out nor invent another.
    """
    said = rendered(result)
    heard = re.findall(r"[A-Za-z][\w'\u2019-]*", request)
    words = list(dict.fromkeys((*_FRAME, *heard, *words_of(result.name).split())))
    frame = " | ".join(_quoted(f" {word}") for word in words if word.isprintable())
    end = "" if said.endswith((".", "!", "?")) else ' "."'
    return f"root ::= word{{1,{_WORDS_BEFORE}}} {_quoted(' ' + said)}{end}\nword ::= {frame}\n"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
