"""Which ids and names can be made."""

import string
import unicodedata

import pytest
from hypothesis import given, strategies as st

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.core.path import LONGEST, check_new_id, check_new_name
from ziggurat.core.visible import JOINERS, visible_line

ALLOWED = string.ascii_letters + string.digits + "-_.:@/+=,|~"


@given(st.text(st.sampled_from(ALLOWED), min_size=1, max_size=LONGEST).filter(lambda text: text[0] != "-"))
def test_ids_of_allowed_characters_are_taken(text: str) -> None:
    check_new_id(text, "run_id")
    check_new_name(text, "a name")


@given(st.text(st.sampled_from(ALLOWED), max_size=5), st.characters(exclude_characters=ALLOWED))
def test_an_id_with_any_other_character_is_refused_and_shown(before: str, other: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_new_id(f"{before}{other}b", "run_id")
    assert ascii(f"{before}{other}b") in str(refused.value)


@pytest.mark.parametrize("text", ["", "-x", "a" * (LONGEST + 1), wrong(3), wrong(None), wrong(b"r"), "r-1\n", " r"])
def test_no_id_is_empty_too_long_an_option_or_no_text(text: str) -> None:
    with pytest.raises(ConfigurationError, match="run_id"):
        check_new_id(text, "run_id")


@given(st.text(max_size=20))
def test_a_name_is_taken_if_every_character_of_it_can_be_seen(text: str) -> None:
    bare = text.translate(dict.fromkeys(map(ord, JOINERS)))
    hidden = any("\\u" in visible_line(f"a{each}") and not unicodedata.combining(each) for each in bare)
    try:
        check_new_name(text, "a name")
    except ConfigurationError:
        assert hidden or not text.strip()
    else:
        assert not any(unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp") for each in bare)


@pytest.mark.parametrize(
    "text", ["Trip planner", "Reise-Agent (größer)", "日本", "🛠️ fixer", "\u0645\u06cc\u200c\u062e", "a'b\"c"]
)
def test_names_of_people_are_taken(text: str) -> None:
    check_new_name(text, "a name")


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[2J", "\u202eecila", "", " ", "a" * 501, wrong(3)])
def test_names_that_deceive_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="a name"):
        check_new_name(text, "a name")
