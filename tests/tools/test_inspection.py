import functools
import subprocess
import sys
import textwrap
from dataclasses import dataclass

import docstring_parser
import pytest
from hypothesis import given, strategies as st

from ziggurat.tools.inspection import Docstring, describe, parse

GOOGLE = """Forecast for a city.

    Longer text,
    on two lines.

    Args:
        city: Name of the city,
            in English: or not.
        days (int, optional): How many days ahead.
        where (dict[str, tuple(int, int)]): A place.
        **rest: Anything else.
        bare:

    Returns:
        str: The forecast.

    Raises:
        ValueError: No such city.
    """
NUMPY = """Forecast for a city.

    Longer text,
    on two lines.

    Parameters
    ----------
    city : str
        Name of the city,
        in English: or not.
    days, hours : int, optional
        How many days ahead.

    Returns
    -------
    str
        The forecast.
    """
SPHINX = """Forecast for a city.

    Longer text,
    on two lines.

    :param str city: Name of the city,
        in English: or not.
    :param days: How many days ahead.
    :type days: int
    :returns: The forecast.
    """
EPYTEXT = """Forecast for a city.

    Longer text,
    on two lines.

    @param city: Name of the city,
        in English: or not.
    @param days: How many days ahead.
    @return: The forecast.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX, EPYTEXT], ids=["google", "numpy", "sphinx", "epytext"])
def test_four_styles(text: str) -> None:
    found = parse(text)
    assert found.summary == "Forecast for a city.\n\nLonger text,\non two lines."
    assert found.parameters["city"] == "Name of the city, in English: or not."
    assert found.parameters["days"] == "How many days ahead."


@pytest.mark.parametrize(
    "text",
    ["Args:\n        x: The x.\n    ", "\n    Args:\n        x: The x.\n    ", ":param x: The x.", "@param x: The x."],
)
def test_a_docstring_of_parameters_alone(text: str) -> None:
    assert parse(text) == Docstring("", {"x": "The x."})


def test_names_with_types_and_stars_and_names_that_share_a_line() -> None:
    assert parse(GOOGLE).parameters == {
        "city": "Name of the city, in English: or not.",
        "days": "How many days ahead.",
        "where": "A place.",
        "rest": "Anything else.",
    }
    assert parse(NUMPY).parameters["hours"] == "How many days ahead."


@pytest.mark.parametrize(
    ("text", "summary"),
    [
        ("", ""),
        ("One line.", "One line."),
        ("One line.\n\nNote: this is text.", "One line.\n\nNote: this is text."),
        ("One line.\n\nReturns:\n\nnothing indented", "One line.\n\nReturns:\n\nnothing indented"),
        ("One line.\n\nArgs:\n", "One line.\n\nArgs:"),
        ("\n    Begins late.\n\n    Args:\n        a: b\n", "Begins late."),
        ("\nArgs:\n    a: b", ""),
    ],
)
def test_summary(text: str, summary: str) -> None:
    assert parse(text).summary == summary


NAMES = st.from_regex(r"[a-z][a-z_]{0,8}", fullmatch=True)
WORDS = st.lists(st.from_regex(r"[A-Za-z0-9,;'/]{1,8}", fullmatch=True), min_size=1, max_size=6).map(" ".join)


@given(WORDS, st.dictionaries(NAMES, WORDS, min_size=1, max_size=5))
def test_google_style_agrees_with_the_library(summary: str, parameters: dict[str, str]) -> None:
    body = "\n".join(f"    {name}: {text}" for name, text in parameters.items())
    text = f"{summary}.\n\nArgs:\n{body}\n\nReturns:\n    A text.\n"
    library = docstring_parser.parse(text, docstring_parser.DocstringStyle.GOOGLE)
    found = parse(text)
    assert found.parameters == {each.arg_name: each.description for each in library.params} == parameters
    assert found.summary == library.short_description


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(parse(text), Docstring)


@given(
    st.lists(
        st.sampled_from(
            ["Args:", "  a: b", "    c", "---", ":param x: y", "Returns:", "", "@param q: r", "text", "Parameters"]
        )
    )
)
def test_any_mixture_of_styles_is_read(lines: list[str]) -> None:
    assert isinstance(parse("\n".join(lines)), Docstring)


def documented(x: int) -> int:
    """Say something.

    Args:
        x: A number.
    """
    return x


class Callable:
    """An object's own words."""

    def __call__(self, x: int) -> int:
        return x

    def method(self, x: int) -> int:
        """A method's words."""
        return x


class Better:
    """Not these."""

    def __call__(self) -> None:
        """These."""


@dataclass
class Silent:
    number: int

    def __call__(self) -> int:
        return self.number


def test_describe_functions_partials_methods_and_objects() -> None:
    assert describe(documented) == Docstring("Say something.", {"x": "A number."})
    assert describe(functools.partial(functools.partial(documented), x=1)).summary == "Say something."
    assert describe(Callable()).summary == "An object's own words."
    assert describe(Callable().method).summary == "A method's words."
    assert describe(Better()).summary == "These."
    assert describe(lambda: None) == Docstring()
    assert describe(Silent(1)) == Docstring()


def in_fresh_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    ).stdout


def test_google_style_imports_no_library() -> None:
    code = f"""
        import sys
        from ziggurat.tools.inspection import parse
        parse({GOOGLE!r}); parse("One line.")
        print("docstring_parser" in sys.modules)
        """
    assert in_fresh_python(code).strip() == "False"


def test_without_the_library_the_text_stays_whole() -> None:
    code = f"""
        import sys
        sys.modules["docstring_parser"] = None
        from ziggurat.tools.inspection import parse
        found = parse({SPHINX!r})
        print(":param str city:" in found.summary, found.parameters)
        """
    assert in_fresh_python(code).strip() == "True {}"


# -- names that are not those of parameters ----------------------------------------------------------------------------
