"""The variables of a plan: what its nodes read and write, and how texts and arguments refer to them."""

import re
from collections.abc import Collection, Mapping
from typing import Any

from ziggurat.core.codec import canonical
from ziggurat.core.errors import InvalidArguments
from ziggurat.tools.arguments import read

Variables = Mapping[str, Any]
"""The values that the nodes of a plan have in common, by name."""

_REFERENCE = re.compile(r"\{(\{[A-Za-z_]\w*\})\}|\{([A-Za-z_]\w*)\}")


def fill(template: Any, variables: Variables, where: str) -> Any:
    """Return a text, or data with texts in it, in which ``{name}`` is replaced by the variable of that name.

    A text that is nothing but ``"{name}"`` becomes the value itself, with its type. ``{{name}}`` stands for ``{name}``,
    and other braces for themselves.

    >>> fill({"query": "about {topic}", "limit": "{count}"}, {"topic": "tea", "count": 3}, "search")
    {'query': 'about tea', 'limit': 3}

    Args:
        template: The text or the data.
        variables: What it may refer to.
        where: Names the node in the error.

    Raises:
        InvalidArguments: there is no such variable.
    """
    if isinstance(template, str):
        if "{" not in template:
            return template
        whole = _REFERENCE.fullmatch(template)
        if whole is not None and whole[2]:
            return _value(whole[2], variables, where)
        return _REFERENCE.sub(lambda match: match[1] or text_of_value(_value(match[2], variables, where)), template)
    if isinstance(template, Mapping):
        return {name: fill(value, variables, where) for name, value in template.items()}
    if isinstance(template, (list, tuple)):
        return [fill(each, variables, where) for each in template]
    return template


def escaped(template: Any, known: Collection[str] = ()) -> Any:
    """Return a text, or data with texts in it, whose references are no references, except those to known variables."""
    if isinstance(template, str):
        return _REFERENCE.sub(lambda match: match[0] if match[2] in known else f"{{{match[0]}}}", template)
    if isinstance(template, Mapping):
        return {name: escaped(value, known) for name, value in template.items()}
    return [escaped(each, known) for each in template] if isinstance(template, (list, tuple)) else template


def items_of(over: str, variables: Variables, where: str) -> list[Any]:
    """Return the items of the list that a variable has, or of a JSON list as text."""
    if over not in variables:
        raise InvalidArguments(
            f"{where} goes over the variable {over!r}, a name without braces, which has no value there; there are: "
            f"{', '.join(variables) or 'none'}"
        )
    items = variables[over]
    if isinstance(items, str):
        try:
            items = read(items)
        except InvalidArguments as error:
            raise InvalidArguments(f"{where} goes over the text in {over!r}, which is no list: {error}") from error
    if not isinstance(items, (list, tuple)):
        raise InvalidArguments(f"{where} goes over {over!r}, which is no list but {type(items).__name__}")
    return list(items)


def _value(name: str, variables: Variables, where: str) -> Any:
    try:
        return variables[name]
    except KeyError:
        raise InvalidArguments(
            f"{where} refers to the variable {name!r}, which has no value there; there are: "
            f"{', '.join(variables) or 'none'}. Write {{{{{name}}}}} for the text {{{name}}}"
        ) from None


def text_of_value(value: object) -> str:
    """Return a value as part of a text: text unchanged, None as an empty text, anything else as JSON."""
    if isinstance(value, str):
        return value
    return "" if value is None else canonical(value).decode()
