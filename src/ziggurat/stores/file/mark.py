"""The mark of a log: a file in its folder that has the last acknowledged row."""

import logging
from pathlib import Path

from ziggurat.core.store import LogMark, Row
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import read_private
from ziggurat.databases.marks import SLOT, mark_in, slot_of

logger: logging.Logger = logging.getLogger("ziggurat")


def remember(disk: Disk, at: Path, log: str, row: Row) -> None:
    """Write which row of a log was acknowledged last; a failure is logged, since it only protects less."""
    try:
        file = disk.edit(at / "mark")
        try:
            disk.overwrite(file, 0, slot_of(log, LogMark.of(row)))
        finally:
            disk.close(file)
    except OSError as error:
        logger.warning("%s cannot be written, so a loss of the last entries is not noticed: %s", at / "mark", error)


def marked(at: Path, log: str) -> LogMark | None:
    """Return the last acknowledged row of a log; None if it is unknown."""
    try:
        slot = read_private(at / "mark")
    except FileNotFoundError:
        return None
    mark = mark_in(slot, log)
    if mark is None and slot != bytes(SLOT):
        logger.warning("%s is damaged: whether the last entries are there cannot be checked", at / "mark")
    return mark
