"""Texts whose every character is visible: by the properties of all characters, not by a list of some."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given, strategies as st

from tests.samples import LONG, sample
from ziggurat.core.visible import escaped_json, is_hidden, visible, visible_line

_NAMES = ("VARIATION SELECTOR", "HANGUL FILLER", "SEONG FILLER", "SCRIPT FILLER", "GRAPHEME JOINER", "VOWEL INHERENT")
_EMPTY = ("BRAILLE PATTERN BLANK", "NULL NOTEHEAD")
_TURNING = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI", "B", "BN"}


def _missed(character: str) -> bool:
    """Whether a reader could miss it, by what the database says of it: its category, its direction, its name."""
    name = unicodedata.name(character, "")
    return (
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
        or unicodedata.bidirectional(character) in _TURNING
        or any(words in name for words in _NAMES + _EMPTY)
    )


ALL = [
    chr(code)
    for code in range(0x80, sys.maxunicode + 1)
    if not 0xD800 <= code <= 0xDFFF and (LONG or not code % 97 or unicodedata.category(chr(code)) not in ("Cn", "Co"))
]
"""Of the code points without a character, a few."""
MARKS = [each for each in ALL if unicodedata.category(each)[0] == "M"]


def test_every_character_that_could_be_missed_is_hidden_and_no_other() -> None:
    assert [each for each in ALL if is_hidden(each) != _missed(each)] == []


@pytest.mark.parametrize("place", ["{}", "q{}b", "א{}", "{} ", "\U0001f600{}"])
def test_no_hidden_character_and_no_unusual_space_gets_through(place: str) -> None:
    unseen = {each for each in ALL if is_hidden(each) or unicodedata.category(each) == "Zs"}
    texts = [place.format(each) for each in sample(sorted(unseen), 2_000)]
    document = json.dumps(texts, ensure_ascii=False)
    for strict in (False, True):
        written = escaped_json(document, strict=strict)
        assert not set(written) & unseen
        assert json.loads(written) == texts
    for show in (visible, visible_line):
        assert not set("".join(map(show, texts))) & unseen


@pytest.mark.parametrize("before", ["", " ", "=", "\u200b", "\n", "\\", '"', "\u00a0", "q\u200b", "\u25cc"])
def test_a_mark_without_a_letter_is_escaped(before: str) -> None:
    document = json.dumps([f"{before}{each}" for each in MARKS], ensure_ascii=False)
    assert not set(escaped_json(document)) & set(MARKS)
    assert json.loads(escaped_json(document)) == json.loads(document)
    if before != "\u200b":
        assert not set("".join(visible_line(f"{before}{each}") for each in MARKS)) & set(MARKS)


def test_marks_stay_on_letters_of_their_script_only() -> None:
    for text in ("ọ́", "हिन्दी", "ภาษาไทย", "עִבְרִית", "العَرَبِيَّة", "မြန်မာ", "ខ្មែរ", "தமிழ்", "q\u0301"):
        text = unicodedata.normalize("NFC", text)
        assert visible(text) == visible_line(text) == text
        assert escaped_json(f'"{text}"', strict=True) == f'"{text}"'
    assert visible_line("q\u17d2\u093f") == "q\\u17d2\\u093f"  # Khmer and Devanagari marks on a Latin letter


def test_a_letter_carries_few_marks() -> None:
    shown = visible("z" + "\u0301" * 1_000 + "y")
    assert shown.count("\u0301") == 4
    assert shown.endswith("\\u0301y")


def test_letters_digits_punctuation_and_symbols_of_all_people_stay() -> None:
    plain = [each for each in ALL if unicodedata.category(each)[0] in "LNPS" and not is_hidden(each)]
    assert visible("".join(plain)) == visible_line("".join(plain)) == "".join(plain)
    apart = " ".join(each for each in plain if unicodedata.is_normalized("NFC", each))
    assert escaped_json(f'"{apart}"', strict=True) == f'"{apart}"'


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=8))
def test_strictly_texts_that_are_the_same_by_definition_are_shown_in_one_way(text: str) -> None:
    spelled = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    shown = [escaped_json(json.dumps(each, ensure_ascii=False), strict=True) for each in spelled]
    assert [json.loads(each) for each in shown] == spelled
    assert (shown[0] == shown[1]) == (spelled[0] == spelled[1])
    assert unicodedata.is_normalized("NFC", shown[1].replace("\\", " "))


@given(st.text())
def test_what_is_visible_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    assert visible_line(visible_line(text)) == visible_line(text)
    assert len(visible_line(text).splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b]0;title\x07b\x9b1m", "a\\u001b]0;title\\u0007b\\u009b1m"),
        ("c\td\r\ne\u2028f\rg", "c\td\ne\nf\\u000dg"),
        ("❤️ 1️⃣ 👨‍👩‍👧 \u0645\u200c\u062e", "❤ 1⃣ 👨👩👧 \u0645\u062e"),
        ("10\u202f000\u00a0€", "10 000 €"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\udb40\\udc41"),
    ],
)
def test_text_for_a_terminal(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_field_hides_nothing_and_breaks_no_line() -> None:
    assert visible_line("r-1\n\t\u2028\u200d❤️") == "r-1\\u000a\\u0009\\u2028\\u200d❤\\ufe0f"
