"""Names and patterns of tools in settings: one that matches no tool is most likely misspelt."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import warn_once
from ziggurat.core.similar import similar


def check_patterns(where: str, patterns: Iterable[str], names: Collection[str], least: float | None) -> None:
    """Warn once of each pattern that matches no name of a tool; `where` begins the sentence.

    Raises:
        ConfigurationError: it resembles a name by `least` or more, and is no pattern; see `similar`.
    """
    for pattern in patterns:
        if pattern == "*" or any(fnmatchcase(name, pattern) for name in names):
            continue
        near = similar(pattern, names)
        hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(sorted(names)) or 'none'}"
        text = f"{where} has no tool {pattern!r}; {hint}"
        if least is not None and similar(pattern, names, least=least) and not set(pattern) & set("*?["):
            raise ConfigurationError(text)
        warn_once(text)
