"""Patterns that can hang are refused, and usual ones are taken."""

from typing import Annotated, Any

import pytest
from msgspec import Meta, Struct

from ziggurat import Agent, ConfigurationError, tool
from ziggurat.testing import ScriptedModel
from ziggurat.tools.schema import schema_of


@pytest.mark.parametrize(
    "pattern",
    [r"^(\w+\s?)+$", r"(a+)+$", r"(a|a)*b", r"(a*)*", r"(?:x?){2,50}y", r"([a-z]+\.?)+z", r"((a)|b+)+c",
     r"(?P<n>\d+){2,}x",
     r"^((\w-?)+@)+$", r"(\.[a-z.]+)*$", r"(ab|ac)+d", r"(.+,)*$"],
)  # fmt: skip
def test_patterns_that_can_hang_are_refused_in_every_type(pattern: str) -> None:
    text: Any = Annotated[str, Meta(pattern=pattern)]

    class Inner(Struct):
        name: text

    for kind in (text, list[text], dict[str, text], Inner, text | None, list[Inner]):
        with pytest.raises(ConfigurationError, match="pattern"):
            schema_of(kind)
    with pytest.raises(ConfigurationError, match="pattern"):
        Agent(ScriptedModel("x"), output=Inner)

    async def look(name: text) -> str:
        return str(name)

    with pytest.raises(ConfigurationError, match="pattern"):
        tool(look)


@pytest.mark.parametrize(
    "pattern",
    [r"^[a-z]+$", r"^[a-z0-9]+(-[a-z0-9]+)*$", r"^([a-z]+\.)+[a-z]{2,}$", r"^\d{4}-\d{2}-\d{2}$", r"^(foo|bar)+$",
     r"^(a|b+)?$", r"^([0-9a-f]{2}:){5}[0-9a-f]{2}$", r"^[()*+]+$", r"\(\w+\)", r"^(?:\d+(?:,\d+)*)?$",
     r"^#([0-9a-f]{3}){1,2}$", r"^[A-Za-z_]\w*$", r"^https?://\S+$", r"^\d+(\.\d+)?$", r"^(-[a-z]+?)*$", r"^.*foo$",
     r"^[\w.+-]{1,64}@[\w.-]{1,255}\.[a-z]{2,10}$", r"^\s*\w+\s*$", r"^(\d+|\d+\.\d+)$", r"\d+", r"(?i)^a+b$"],
)  # fmt: skip
def test_usual_patterns_are_taken(pattern: str) -> None:
    assert schema_of(Annotated[str, Meta(pattern=pattern)])["pattern"] == pattern


@pytest.mark.parametrize(
    "pattern",
    [r"a*a*a*b", r"^a*a*b", r"^[^@\s]+@[^@\s]+\.[a-z]+$", r"\s+$", r"[a-z]+@", r"^.*a.*b", r"^(.*)(.*)x$",
     r"^(a+)(b+)?(a+)$", r"^a{0,99999}a{0,99999}b", r"(\w+\))+?x", r"(?i)^a*A*b", r"^(a|b)*[ab]*c",
     r"^a*(b|a+c)$", r"v?\d+\.\d+"],
)  # fmt: skip
def test_repeats_of_the_same_letters_need_a_length(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="max_length"):
        schema_of(list[Annotated[str, Meta(pattern=pattern)]])
    schema_of(list[Annotated[str, Meta(pattern=pattern, max_length=100)]])
