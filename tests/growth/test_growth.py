"""The time of every reader, validator, fold, renderer and rule grows with the size of its input, not with its square.

A few sizes are measured here; ``make growth`` measures larger ones.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ziggurat
from tests.growth import plants
from tests.growth.__main__ import CASES
from tests.growth.measure import FACTOR

NAMES = sorted({case.name for case in CASES if not case.name.startswith("plants.")})

_HOME = Path(ziggurat.__file__).parent
_READS = re.compile(
    r"(accept_calls|answer|as_error|canonical|check_size|clean|contradict$|decode|deltas_of|difference|digest|encode|entities"
    r"|evaluate|explain|expression|failure|fit$|fold|from_wire|has_infinity|is_object|items_to|jaccard|judge|junk_in"
    r"|latest|listing|messages_to|near$|observation|parse|plain_form|partial$|pieces$|prompt_of|read|redacted"
    r"|refold|refuse_calls|rendered|repair|result_of|result_text|retry_after|shortened|shown|state_of|term_|terms$|text_of|tfidf"
    r"|unique|units|validate|visible|whole$|escaped_json)"
)
"""Beginnings of the names of functions that read what others wrote."""
_READERS = re.compile(r".*(Brackets|Fold|Incoming|Parser|Reader|Secrets|TfIdf|Wrapper|Validator|TextIndex)$")
"""Names of classes that do."""

ELSEWHERE = {
    "calls.enter.read_output": "calls the decoder of the output of an agent",
    "calls.failures.failure_at": "looks one error up",
    "plans.variables.text_of_value": "writes a value as JSON",
    "teams.debating.parse_score": "reads a fixed number of characters",
    "core.combinator.shown": "shows services of the program itself",
    "core.live.LiveReader": "is a protocol",
    "models.anthropic.blocks.read_block": "is a decoder of models.anthropic.stream.Reader and from_wire",
    "http.connection.Parser": "is a protocol; the parser is llhttp",
    "http.incoming.Incoming": "joins each piece once, within Limits; needs an event loop and a connection",
    "models.http.service.StreamReader": "is a protocol",
    "models.local.arithmetic.expression_in": "reads a fixed number of characters of a request: embedded._HEAD, _TAIL",
    "models.local.chat_template.read_template": "reads what llama.cpp says of its file, once",
    "models.local.replies.answer_grammar": "writes the schema of the program itself",
    "models.local.replies.answer_prompt": "writes the schema of the program itself",
    "models.local.speech.text_of": "looks up three values",
    "models.openai.calls.CallReader": "is a part of models.openai.stream.Reader",
    "models.openai.shapes.read": "is the decoder of models.openai.stream.Reader and from_wire",
    "models.openai_responses.items.deltas_of_items": "is a part of models.openai_responses.from_wire",
    "models.openai_responses.items.read": "is the decoder of models.openai_responses.stream.Reader",
    "models.react_protocol.labels.answer_at": "reads a fixed number of characters",
    "stores.file.log.repaired": "reads files that the store itself wrote",
    "stores.sqlite.rows.read_rows": "makes one value for each row of a table that the store itself wrote",
    "wires.reading.read_request": "reads the requests of the tests that use the server",
    "wires.reading.read_approvals": "looks at each part of a request once, as read_request does",
    "serve.replies.encode_event": "writes one event of an answer",
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
        for name, node in made.items():
            pattern = _READERS if isinstance(node, ast.ClassDef) else _READS
            if not name.startswith("_") and pattern.match(name):
                yield ".".join((*path.relative_to(_HOME).with_suffix("").parts, name))


# Memory that was returned would cost large inputs, and not small ones, the time to get it again.
_KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "4000000000", "PYTHONHASHSEED": "0"}

Measure = Callable[[str], dict[str, tuple[float, str]]]
"""Returns the factor and a sentence for each case of a function."""


@pytest.fixture(scope="module")
def measure() -> Iterator[Measure]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.growth"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **_KEEP_MEMORY},
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(name: str) -> dict[str, tuple[float, str]]:
            print(name, file=stdin, flush=True)
            return {
                case: (factor, f"{factor:.1f} times as long for 4 times the size, {seconds:.4f} s at {size:,}")
                for case, factor, size, seconds in json.loads(stdout.readline())
            }

        yield ask
        stdin.close()
        assert process.wait() == 0


@pytest.mark.parametrize("name", NAMES)
def test_time_grows_with_the_size_of_the_input(name: str, measure: Measure) -> None:
    slow = [f"{case}: {sentence}" for case, (factor, sentence) in measure(name).items() if factor > FACTOR]
    assert not slow, "\n".join(slow)


def test_every_reader_is_measured_or_is_excused() -> None:
    measured = {".".join(name.split(".")[:end]) for name in NAMES for end in range(2, len(name.split(".")) + 1)}
    public = set(_public())
    missing = sorted(public - measured - set(ELSEWHERE))
    assert not missing, "add these to the tables in tests/growth, or say here why they need not be measured"
    assert not set(ELSEWHERE) - public, "these do not exist any more"


def test_many_functions_are_measured() -> None:
    assert len(NAMES) >= 80


@pytest.mark.parametrize("name", [case.name for case in plants.SQUARE])
def test_a_function_that_takes_the_square_is_found(name: str, measure: Measure) -> None:
    assert all(factor > FACTOR for factor, _ in measure(name).values())


@pytest.mark.parametrize("name", [case.name for case in plants.LINEAR])
def test_a_function_that_takes_its_time_once_passes(name: str, measure: Measure) -> None:
    assert all(factor <= FACTOR for factor, _ in measure(name).values())
