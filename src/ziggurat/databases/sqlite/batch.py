"""Several jobs in one transaction: all of them are written, or none is."""

from collections.abc import Callable, Sequence
from typing import Any

from ziggurat.core.errors import StoreError
from ziggurat.databases.jobs import Job
from ziggurat.databases.sqlite.connection import SqliteConnection, WouldWait


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
    """Run writing jobs in one transaction and store each one's outcome; if the transaction fails, all jobs fail."""

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
            job.error = type(error)(str(error))  # each job is awaited separately, so each needs its own error
        return error
    except Exception as error:  # noqa: BLE001 - an error in one job; nothing was written
        for job in jobs:
            job.error = StoreError(f"{database.path}: {type(error).__name__}: {error}")
        return error
    return None
