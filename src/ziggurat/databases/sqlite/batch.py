"""Several jobs in one transaction: all of them are written, or none is."""

__all__ = ["write_batch"]

from collections.abc import Callable, Sequence
from typing import Any

from ziggurat.core.errors import StoreError
from ziggurat.databases.sqlite.connection import SqliteConnection, WouldWait
from ziggurat.databases.writer import Job


def _nothing() -> None:
    pass


def write_batch(
    database: SqliteConnection,
    jobs: Sequence[Job[Any]],
    alone: tuple[type[Exception], ...],
    *,
    before: Callable[[], None] = _nothing,
    last: Callable[[], None] = _nothing,
    at_once: bool = False,
) -> Exception | None:
    """Do jobs that write in one transaction, and keep each one's outcome; when that fails, all of them have failed.

    Args:
        database: Where they write.
        jobs: In order.
        alone: The errors of a job that has written nothing: it fails alone, and the others go on.
        before: Called before the transaction, to make the tables; where it fails, so do the jobs.
        last: Called after the jobs, in the same transaction.
        at_once: Do them only if nothing need be waited for.

    Returns:
        None when all is written; else why nothing is, a `StoreError` or a fault in one of the jobs.

    Raises:
        WouldWait: they cannot be done at once.
    """

    def all_of_them() -> None:
        for job in jobs:
            job.error = None
            try:
                job.result = job.work()
            except alone as error:
                job.error = error
        last()

    try:
        before()
        database.transaction(all_of_them, at_once=at_once)
    except WouldWait:
        raise
    except StoreError as error:
        for job in jobs:
            job.error = type(error)(str(error))  # each waits for itself, so each has an error of its own
        return error
    except Exception as error:  # noqa: BLE001 - a fault of one of them; none was written
        for job in jobs:
            job.error = StoreError(f"{database.path}: {type(error).__name__}: {error}")
        return error
    return None
