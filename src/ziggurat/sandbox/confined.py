"""Level 2: CPython in a process that the kernel confines."""


def missing() -> str | None:
    """Return why this level is not available, or None if it is."""
    return "it is not built yet"
