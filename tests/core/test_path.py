import pytest
from hypothesis import given, strategies as st

from ziggurat.core.path import escaped, is_beneath, is_tool_call, parent_of


@given(st.text())
def test_any_name_becomes_one_segment(name: str) -> None:
    assert f"run/{escaped(name)}/x".split("/") == ["run", escaped(name), "x"]
    assert escaped(name)


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_names_stay_different(one: str, other: str) -> None:
    assert (escaped(one) == escaped(other)) == (one == other)


@given(st.text())
def test_no_name_looks_like_a_numbered_one(name: str) -> None:
    assert "#" not in escaped(name)


def test_plain_names_are_kept() -> None:
    assert escaped("search the web") == "search the web"
    assert escaped("a/b%2F#2") == "a%2Fb%252F%232"
    assert escaped("") == "unnamed"


@given(st.text())
def test_no_name_looks_like_a_tool_call(name: str) -> None:
    assert is_tool_call(f"run/step-1/tool-1:{escaped(name)}")
    assert not is_tool_call(f"run/step-1/tool-1:x/{escaped(name)}")


def test_parents() -> None:
    assert parent_of("run/step-1/model") == "run/step-1"
    assert parent_of("run") == ""
    assert parent_of("") == ""


@pytest.mark.parametrize(
    ("path", "ancestor", "beneath"),
    [
        ("a/b", "a", True), ("a", "a", True), ("a/bc", "a/b", False), ("a/b", "a/bc", False), ("a/b/c", "a/b", True),
        ("a", "a/b", False), ("anything", "", True),
    ],
)  # fmt: skip
def test_beneath_compares_whole_names(path: str, ancestor: str, beneath: bool) -> None:
    assert is_beneath(path, ancestor) is beneath
