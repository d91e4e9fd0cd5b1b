"""Database addresses without their secrets."""

__all__ = ["without_secrets"]

import re


def without_secrets(url: str) -> str:
    """Return an address of any kind as it may be shown: without what stands before an @ and after password=."""
    return re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1***", re.sub(r"(?<=//).*@", "***@", url, flags=re.DOTALL))
