"""Reading the question from the command line or standard input."""

import sys

from ziggurat.core.errors import ConfigurationError

_HOW = 'ask one, as in: ziggurat run "What is 12 * (7 + 5)?"'


def question_of(argument: str | None) -> str:
    """Return the question; ``-``, or no argument on a pipe, reads standard input."""
    if argument is None and sys.stdin.isatty():
        raise ConfigurationError(f"there is no question; {_HOW}")
    if argument is None or argument == "-":
        try:
            question = sys.stdin.read()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"standard input is not text in {error.encoding}: {error.reason}") from error
        source = "standard input"
    else:
        question, source = argument, "the question"
    try:
        question.encode()
    except UnicodeEncodeError as error:
        raise ConfigurationError(f"{source} holds bytes that are not text (at character {error.start + 1})") from error
    if not question.strip():
        raise ConfigurationError(f"{source} is empty; {_HOW}")
    return question.strip() if source == "standard input" else question
