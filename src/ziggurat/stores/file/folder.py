"""The folder of a store of files: made when it is first used, and refused if a newer version has written it."""

import os
from pathlib import Path

import msgspec

from ziggurat.core.errors import StoreError
from ziggurat.databases.disk import Disk
from ziggurat.databases.files import read_private
from ziggurat.stores.file.log import UNREADABLE, replaced

_FORMAT = 1


class _Format(msgspec.Struct):
    format: int


def prepare_folder(path: Path, disk: Disk) -> None:
    """Create the folder, or check that it is one of ours."""
    marker = path / "format.json"
    if not os.path.lexists(marker):
        if path.is_file():
            raise StoreError(f"{path} is a file, and this store needs a folder; choose another place")
        disk.make_folders((path / "logs").absolute())
        replaced(disk, marker, msgspec.json.encode(_Format(_FORMAT)))  # as any other process writes it
    try:
        known = msgspec.json.decode(read_private(marker), type=_Format).format
    except UNREADABLE as error:
        raise StoreError(f"{marker} cannot be read: {error}") from error
    if known > _FORMAT:
        raise StoreError(f"{path} was written by a newer version (format {known}); upgrade to open it")
