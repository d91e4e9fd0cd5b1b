"""Where a store keeps its data: paths, and URLs without their secrets."""

import os
import re
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from ziggurat.core.errors import ConfigurationError


def without_secrets(url: str) -> str:
    """Return a URL of any kind in a form safe to show: without user name, password, and password parameters."""
    return re.sub(r"(?i)((?:ssl)?password=)[^&]*", r"\1***", re.sub(r"(?<=//).*@", "***@", url, flags=re.DOTALL))


StorePath = Annotated[str | Path, Meta(description="such as 'agents.db'")]
"""Where a store keeps its data."""


def check_path(path: str | Path, store: object) -> Path:
    if not os.fspath(path).strip() or "\0" in os.fspath(path):
        raise ConfigurationError(f"{type(store).__name__}() takes a path, such as 'agents.db'; got {path!r}")
    if isinstance(path, str) and path.startswith(("sqlite:", "file:")):
        raise ConfigurationError(f"{type(store).__name__}() takes a path; an address such as {path!r} is for connect()")
    return Path(path)
