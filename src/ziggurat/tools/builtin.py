"""Three small tools without dependencies, for first experiments and tests."""

__all__ = ["calculator", "echo", "timestamp"]

from ziggurat.core.context import Context


def echo(text: str) -> str:
    """Give a text back unchanged.

    Args:
        text: The text to give back.
    """
    return text


def calculator(expression: str) -> int | float:
    """Work out an arithmetic expression exactly.

    Args:
        expression: Numbers, + - * / // % **, and parentheses, such as "12 * (7 + 5)".
    """
    from ziggurat.tools.arithmetic import evaluate

    return evaluate(expression)


def timestamp(ctx: Context) -> str:
    """Tell the current date and time in UTC, such as "2026-01-31T09:30:00Z"."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(int(ctx.clock.now() // 1), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
