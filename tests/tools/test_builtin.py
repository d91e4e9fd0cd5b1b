import contextlib
from datetime import UTC, datetime
from fractions import Fraction

import pytest
from hypothesis import given, strategies as st

from ziggurat.core import CLOCK, root
from ziggurat.core.clock import SystemClock
from ziggurat.errors import InvalidArguments
from ziggurat.tools import calculator, echo, timestamp
from ziggurat.tools.builtin import MAX_LENGTH


def test_echo() -> None:
    assert echo("héllo\n") == "héllo\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("12 * (7 + 5)", 144), ("7 / 2", 3.5), ("6 / 2", 3), ("6.0 / 2", 3), ("1,000 * 2", 2000),
        ("12,345,678.5", 12345678.5), ("-2 ** 2", -4), ("(-2) ** 2", 4), ("2 ** -1", 0.5), ("2 ** 3 ** 2", 512),
        ("2 ** -1 * 3", 1.5), ("2^10", 1024), ("3 \u00d7 4 \u00f7 2 \u2212 1", 5), ("0.1 + 0.2", 0.3),
        ("1 / 3 * 3", 1), ("7 // 2", 3), ("-7 // 2", -4), ("-7 % 3", 2), ("7.5 % 2", 1.5), ("--3", 3), ("+3 - -3", 6),
        ("1e3", 1000), ("1.5e-1", 0.15), (".5 + 5.", 5.5), ("4 ** 0.5", 2), ("0 ** 0", 1), ("(-1) ** 1,000,001", -1),
        ("2 ** 13999", 2**13999), ("10 ** 100 - 1", 10**100 - 1), ("  ( 1 )  ", 1),
        ("+".join("1" * 1000), 1000), ("007 + 1", 8), ("1 +\n2", 3), ("2 ** 0.5 // 1", 1), ("0 ** 9999999999", 0),
    ],
)  # fmt: skip
def test_calculator(expression: str, value: float) -> None:
    found = calculator(expression)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("expression", "noun"),
    [
        ("", "empty"), ("   ", "empty"), ("1 / 0", "zero"), ("1 // (2 - 2)", "zero"), ("4 % 0", "zero"),
        ("0 ** -1", "zero"), ("2 ** 0.5 / 0", "zero"), ("2 +", "valid"), ("2 + * 3", "valid"), ("2 (3)", "operator"),
        ("()", "number"), ("2 3", "valid"), ("1..2", "valid"), ("(2", "never closed"), ("2)", "unmatched"),
        ("1) + (2", "unmatched"), ("12 * 7 =", "'='"), ("1 + 1; import os", "';'"), ("sqrt(4)", "'sqrt'"),
        ("n0", "'n'"), ("__import__('os')", "'__import__'"), ("1,00", "','"), ("1_000", "'_'"), ("0x10", "'x'"),
        ("9 ** 9 ** 9", "too large"), ("2 ** 14000", "too large"), ("0.5 ** 20000", "too large"),
        ("1e9999", "too large"), ("1e99999999999999999999", "too large"), ("1e400 / 3", "too large"),
        ("1e300 ** 1.5", "too large"), ("(-8) ** 0.5", "real value"), ("-" * 100 + "1", "deep"),
        ("(" * 999 + "1" + ")" * 999, "parentheses"), ("2 ** (" * 99 + "1" + ")" * 99, "deep"),
        ("-" * 1999 + "1", "deep"),
        ("1" * (MAX_LENGTH + 1), str(MAX_LENGTH)),
    ],
)  # fmt: skip
def test_calculator_refuses(expression: str, noun: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        calculator(expression)
    assert noun in str(caught.value)


def test_a_long_chain_of_powers_of_products_is_bounded() -> None:
    with pytest.raises(InvalidArguments, match="too large"):
        calculator("*".join(["9 ** 4000"] * 3))


LEAVES = st.integers(0, 10**20).map(lambda n: (str(n), Fraction(n)))


def grown(children: st.SearchStrategy[tuple[str, Fraction]]) -> st.SearchStrategy[tuple[str, Fraction]]:
    binary = st.builds(
        lambda a, operator, b, space: (
            f"({a[0]}{space}{operator}{space}{b[0]})",
            {"+": a[1] + b[1], "-": a[1] - b[1], "*": a[1] * b[1]}[operator],
        ),
        children,
        st.sampled_from("+-*"),
        children,
        st.sampled_from(["", " ", "  "]),
    )
    return binary | children.map(lambda a: (f"-{a[0]}", -a[1])) | children.map(lambda a: (f"({a[0]})", a[1]))


@given(st.recursive(LEAVES, grown, max_leaves=12))
def test_calculator_agrees_with_fractions(case: tuple[str, Fraction]) -> None:
    expression, value = case
    found = calculator(expression)
    assert isinstance(found, int)
    assert found == value


@given(st.lists(st.integers(0, 99), min_size=1, max_size=8), st.data())
def test_precedence_agrees_with_python(numbers: list[int], data: st.DataObject) -> None:
    signs = st.sampled_from(["+", "-", "*", "//", "%", "-  -", "*-"])
    expression = str(numbers[0])
    for number in numbers[1:]:
        expression += f" {data.draw(signs)} {number}"
    try:
        value = eval(expression)
    except ZeroDivisionError:
        with pytest.raises(InvalidArguments, match="division by zero"):
            calculator(expression)
    else:
        assert calculator(expression) == value


@given(st.text("0123456789.,+-*/%^()e x\u00d7", max_size=40) | st.text(max_size=40))
def test_any_text_gives_a_number_or_a_clear_refusal(expression: str) -> None:
    with contextlib.suppress(InvalidArguments):
        assert isinstance(calculator(expression), (int, float))


class Stopped(SystemClock):
    def now(self) -> float:
        return datetime(2026, 1, 31, 9, 30, 0, 999_000, tzinfo=UTC).timestamp()


def test_timestamp_takes_the_time_of_the_run() -> None:
    assert timestamp(root().within(CLOCK, Stopped())) == "2026-01-31T09:30:00Z"


@pytest.mark.parametrize(
    ("zone", "time"),
    [
        ("UTC", "2026-01-31T09:30:00Z"),
        ("Europe/Paris", "2026-01-31T10:30:00+01:00"),
        ("America/St_Johns", "2026-01-31T06:00:00-03:30"),
    ],
)
def test_timestamp_takes_a_time_zone(zone: str, time: str) -> None:
    assert timestamp(root().within(CLOCK, Stopped()), zone) == time


@pytest.mark.parametrize("zone", ["", "Europe", "Mars/Base", "../etc/passwd", "/etc/localtime", "a\0b", "x" * 5000])
def test_a_time_zone_that_does_not_exist_is_refused(zone: str) -> None:
    with pytest.raises(InvalidArguments, match="no time zone"):
        timestamp(root(), zone)
