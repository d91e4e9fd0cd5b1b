"""Tests of the parts of a request that look like arguments."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ziggurat.models.local.spans import spans_in


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ('Say "see you" twice', "quoted", ["see you"]),
        ("Say 'it's fine' now", "quoted", ["it's fine"]),
        ("Write to bob@example.com.", "email", ["bob@example.com"]),
        ("Read https://a.org/x?y=1.", "url", ["https://a.org/x?y=1"]),
        ("Open /etc/hosts or notes.txt", "path", ["/etc/hosts", "notes.txt"]),
        ("Text +491701234567 or 555-0123", "phone", ["+491701234567", "555-0123"]),
        ("At 6pm, 15:30 or noon", "time", ["6pm", "15:30", "noon"]),
        ("From 2024-01-01 till next Friday or 3 May 2025", "date", ["2024-01-01", "next Friday", "3 May 2025"]),
        ("I may go tomorrow morning", "date", ["tomorrow morning"]),
        ("Give me 3, 1,500 and 2.5", "number", ["3", "1,500", "2.5"]),
        ("Wait ten minutes or half an hour", "number", ["0.5", "10"]),
        ("How many miles are 3 square meters?", "unit", ["miles", "square meters"]),
        ("50 dollars in EUR", "currency", ["dollars", "EUR"]),
        ("Is it warm in New York or Rio de Janeiro?", "name", ["New York", "Rio de Janeiro"]),
        ("Tom's wedding is at Luigi's", "name", ["Luigi's", "Tom"]),
        ("Plan a walk", "name", []),
        ("What is Google worth?", "name", ["Google"]),
    ],
)
def test_kinds(text: str, kind: str, found: list[str]) -> None:
    assert sorted(span.text for span in spans_in(text) if span.kind == kind) == sorted(found)


def test_what_is_quoted_is_nothing_else() -> None:
    assert [span.kind for span in spans_in('"call Bob at 6pm"')] == ["quoted"]


@given(st.text(max_size=120))
def test_spans_lie_within_the_text(text: str) -> None:
    for span in spans_in(text):
        assert 0 <= span.start < span.end <= len(text)
