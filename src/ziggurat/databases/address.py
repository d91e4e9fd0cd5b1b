"""Database URLs without their secrets."""

import re


def without_secrets(url: str) -> str:
    """Return a URL of any kind in a form safe to show: without user name, password, and password parameters."""
    return re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1***", re.sub(r"(?<=//).*@", "***@", url, flags=re.DOTALL))
