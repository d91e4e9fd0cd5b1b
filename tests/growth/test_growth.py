"""The time of every reader, validator, fold, renderer and rule grows with the size of its input, not with its square.

A few sizes are measured here; ``make growth`` measures larger ones.
"""

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ziggurat
from tests.growth import room_messages, room_models, room_tools
from tests.growth.measure import FACTOR, Case, growth

CASES = [*room_messages.CASES, *room_tools.CASES, *room_models.CASES]
NAMES = sorted({case.name for case in CASES})

_HOME = Path(ziggurat.__file__).parent
_READS = re.compile(
    r"(accept_calls|answer|as_error|canonical|check_size|clean|contradict$|decode|deltas_of|difference|digest|encode|entities"
    r"|evaluate|explain|expression|failure|fit$|fold|from_wire|has_infinity|is_object|items_to|jaccard|judge|junk_in"
    r"|latest|listing|messages_to|near$|observation|parse|plain_form|partial$|pieces$|plain_answer|prompt_of|read|redacted"
    r"|refold|refuse_calls|rendered|repair|result_of|result_text|retry_after|shortened|shown|state_of|term_|terms$|text_of|tfidf"
    r"|unique|units|validate|visible|whole$|escaped_json)"
)
"""Beginnings of the names of functions that read what others wrote."""
_READERS = re.compile(r".*(Brackets|Fold|Incoming|Parser|Reader|Secrets|TfIdf|Wrapper|Validator|TextIndex|AnswerText)$")
"""Names of classes that do."""

ELSEWHERE = {
    "core.combinator.shown": "shows services of the program itself",
    "models.anthropic.blocks.read_block": "is a decoder of models.anthropic.stream.Reader and from_wire",
    "models.http.connection.Parser": "is a protocol; the parser is llhttp",
    "models.http.incoming.Incoming": "joins each piece once, within Limits; needs an event loop and a connection",
    "models.http.service.StreamReader": "is a protocol",
    "models.local.arithmetic.expression_in": "reads the first and last characters of a request, up to plan._LONGEST",
    "models.local.reading.read": "reads the first and last characters of a request, up to plan._LONGEST",
    "models.openai.calls.CallReader": "is a part of models.openai.stream.Reader",
    "models.openai.shapes.read": "is the decoder of models.openai.stream.Reader and from_wire",
    "models.openai_responses.items.deltas_of_items": "is a part of models.openai_responses.from_wire",
    "models.openai_responses.items.read": "is the decoder of models.openai_responses.stream.Reader",
    "models.react.labels.answer_at": "reads a fixed number of characters",
    "stores.file.log.repaired": "reads files that the store itself wrote",
    "stores.sqlite.rows.read_rows": "makes one value for each row of a table that the store itself wrote",
    "testing.server.reading.read_request": "reads the requests of the tests that use the server",
}
"""Functions with such a name that are not measured, and why."""


_ROOMS_ELSEWHERE = ("cli", "databases")
"""Rooms that print and read what the functions measured here made: by `core.visible`, and the codecs."""


def _public() -> Iterator[str]:
    """Yield the public functions and classes with such names, as room.module.name."""
    for path in sorted(_HOME.rglob("*.py")):
        if path.relative_to(_HOME).parts[0] in _ROOMS_ELSEWHERE:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        made = {node.name: node for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        values = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
        for name in ast.literal_eval(values.get("__all__", ast.List([]))):
            pattern = _READERS if isinstance(made.get(name), ast.ClassDef) else _READS
            if name in made and pattern.match(name):
                yield ".".join((*path.relative_to(_HOME).with_suffix("").parts, name))


@pytest.mark.parametrize("name", NAMES)
def test_time_grows_with_the_size_of_the_input(name: str) -> None:
    cases = [case for case in CASES if case.name == name]
    slow: dict[str, str] = {}
    for _ in range(4):  # other work on the machine may last for the whole of one measurement
        slow = {}
        for case in cases:
            factor, size, seconds = growth(case)
            if factor > FACTOR:
                slow[str(case)] = f"{factor:.1f} times as long for 4 times the size, {seconds:.3f} s at {size:,}"
        cases = [case for case in cases if str(case) in slow]
    assert not slow, "\n".join(f"{case}: {what}" for case, what in slow.items())


def test_every_reader_is_measured_or_is_excused() -> None:
    measured = {".".join(name.split(".")[:end]) for name in NAMES for end in range(2, len(name.split(".")) + 1)}
    public = set(_public())
    missing = sorted(public - measured - set(ELSEWHERE))
    assert not missing, "add these to the tables in tests/growth, or say here why they need not be measured"
    assert not set(ELSEWHERE) - public, "these do not exist any more"


def test_many_functions_are_measured() -> None:
    assert len(NAMES) >= 80


class _Joined:
    def __init__(self) -> None:
        self.text = ""

    def push(self, letter: str) -> None:
        self.text += letter


def _joined(letters: str) -> None:
    joined = _Joined()
    for letter in letters:
        joined.push(letter)


def _found_in_a_list(letters: str) -> None:
    seen: list[int] = []
    for number in range(len(letters)):
        if number not in seen:
            seen.append(number)


def _taken_from_the_front(letters: str) -> None:
    while letters:
        letters = letters[1:]


@pytest.mark.parametrize(("slow", "least"), [(_joined, 4_000), (_found_in_a_list, 250), (_taken_from_the_front, 2_000)])
@pytest.mark.parametrize("beside", [None, list])
def test_a_function_that_takes_the_square_is_found(
    slow: Callable[[str], object], least: int, beside: Callable[[str], object] | None
) -> None:
    case = Case("it", "letters", lambda size: "é" * size, slow, least, 16 * least, 16 * least, beside=beside)
    assert growth(case)[0] > FACTOR


@pytest.mark.parametrize("quick", [len, list, sorted, lambda text: [each for each in text if each in "abc"]])
def test_a_function_that_takes_its_time_once_passes(quick: Callable[[str], object]) -> None:
    factor, _, _ = growth(Case("it", "letters", lambda size: "bca" * (size // 3), quick))
    assert factor <= FACTOR
