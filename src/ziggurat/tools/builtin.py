"""Three small tools without dependencies, for first experiments and tests."""

from ziggurat.core.context import Context
from ziggurat.core.errors import InvalidArguments


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


def timestamp(ctx: Context, zone: str = "UTC") -> str:
    """Tell the current date and time, such as "2026-01-31T09:30:00Z".

    Args:
        zone: Name of the time zone, such as "Europe/Paris".
    """
    from datetime import UTC, datetime

    now = datetime.fromtimestamp(int(ctx.clock.now() // 1), UTC)
    if zone == "UTC":
        return now.strftime("%Y-%m-%dT%H:%M:%SZ")
    from zoneinfo import ZoneInfo

    try:
        return now.astimezone(ZoneInfo(zone)).isoformat()
    except (ValueError, OSError, LookupError) as error:  # a wrong form, a folder of names, or no such zone
        raise InvalidArguments(f"zone: there is no time zone {zone!r}; give one such as 'Europe/Paris'") from error
