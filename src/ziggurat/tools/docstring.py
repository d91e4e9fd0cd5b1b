"""Parse the docstrings of tools: the summary, and a description for each parameter.

The Google style is parsed here, so that most tools need no import; NumPy, Sphinx and Epytext are parsed by the
`docstring-parser` library if it is installed. Without it their whole text becomes the summary.
"""

import functools
import inspect
import re
from collections.abc import Callable

import msgspec


class Docstring(msgspec.Struct, frozen=True):
    """A parsed docstring."""

    summary: str = ""
    parameters: dict[str, str] = {}
    returns: str = ""


# Compiled when the first docstring of more than a line is read.
_SECTION = (
    r"(Args|Arguments|Parameters|Params|Keyword Args|Keyword Arguments|Other Parameters|Returns?|Yields?|Raises|"
    r"Attributes|Examples?|Notes?|References|See Also|Todo|Warnings?|Warns)[ ]*:[ ]*$"
)
_PARAMETERS = {"Args", "Arguments", "Parameters", "Params", "Keyword Args", "Keyword Arguments", "Other Parameters"}
_ENTRY = r"\*{0,2}(\w+)(?:[ ]*\((?:[^()]|\([^()]*\))*\))?[ ]*:(?:[ ]+(.*)|[ ]*)$"
_OTHER_STYLE = r"^[ ]*[:@](param|parameter|arg|argument|key|keyword|type|returns?|rtype|raises)\b.*:|^-{3,}[ ]*$"


def describe(function: Callable[..., object]) -> Docstring:
    """Parse the docstring of a function, a method, a partial or a callable object."""
    target = function
    while isinstance(target, functools.partial):
        target = target.func
    if inspect.isroutine(target):
        return parse(target.__doc__ or "")
    kind = type(target)
    own = kind.__doc__ or ""
    if own.startswith(f"{kind.__name__}("):  # the text `dataclass` generates if there is no docstring
        own = ""
    return parse(kind.__call__.__doc__ or own)


def parse(text: str) -> Docstring:
    """Parse a docstring in any of the four styles.

    Example:
        >>> parse("Add two numbers.").summary
        'Add two numbers.'
    """
    whole, text = text, inspect.cleandoc(text).strip()
    if "\n" not in text and not text.startswith((":", "@")):
        return Docstring(text)
    if re.match(_SECTION, text.partition("\n")[0]):
        text = inspect.cleandoc(f"\n{whole}")  # otherwise the lines below the header would lose their indent
    if re.search(_OTHER_STYLE, text, re.MULTILINE):
        return _by_library(text)
    return _google(text)


def _google(text: str) -> Docstring:
    lines = text.split("\n")
    starts = [index for index, line in enumerate(lines) if re.match(_SECTION, line) and _is_header(lines, index)]
    parameters: dict[str, str] = {}
    returns = ""
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        title = lines[start].rstrip(": ")
        body = inspect.cleandoc("\n" + "\n".join(_indented(lines[start + 1 : end]))).rstrip()
        if title in _PARAMETERS:
            parameters.update(_entries(body))
        elif title in ("Return", "Returns"):
            returns = _joined(body)
    summary = "\n".join(lines[: starts[0]] if starts else lines).strip()
    return Docstring(summary, parameters, returns)


def _is_header(lines: list[str], index: int) -> bool:
    following = next((line for line in lines[index + 1 :] if line.strip()), "")
    return following.startswith((" ", "\t"))


def _indented(lines: list[str]) -> list[str]:
    """Return the lines of a section: the indented ones, up to the first that is not."""
    end = next((index for index, line in enumerate(lines) if line.strip() and not line[0].isspace()), len(lines))
    return lines[:end]


def _entries(body: str) -> dict[str, str]:
    entries: dict[str, list[str]] = {}
    current: list[str] = []
    for line in body.split("\n"):
        entry = None if line[:1].isspace() else re.match(_ENTRY, line)
        if entry is not None:
            current = entries.setdefault(entry[1], [])
            current.append(entry[2] or "")
        else:
            current.append(line.strip())
    return {name: description for name, lines in entries.items() if (description := _joined("\n".join(lines)))}


def _joined(text: str) -> str:
    return " ".join(text.split())


def _by_library(text: str) -> Docstring:
    try:
        from docstring_parser import ParseError
        from docstring_parser import parse as parse_any
    except ImportError:
        return Docstring(text)
    try:
        parsed = parse_any(text)
    except ParseError:
        return Docstring(text)
    summary = "\n\n".join(part.strip() for part in (parsed.short_description, parsed.long_description) if part)
    parameters = {
        name.strip().lstrip("*"): _joined(each.description)
        for each in parsed.params
        for name in each.arg_name.split(",")
        if each.description
    }
    returns = parsed.returns.description if parsed.returns is not None else None
    return Docstring(summary, parameters, _joined(returns or ""))
