"""``ziggurat models``: lists model names, and installs and removes models of the catalogue."""

import sys
from importlib.util import find_spec

from ziggurat.cli.providers import example, key_state
from ziggurat.cli.terminal import note, write
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.local.catalogue import CATALOGUE, PinnedModel, pinned
from ziggurat.models.local.install import install, remove
from ziggurat.models.resolving import PROVIDERS


def list_models() -> int:
    """Write an example model name for each provider, and what it still needs."""
    names = {"local": "the embedded demo model: first runs and tests; needs no installation"}
    names |= {f"local:{name}": _described(model) for name, model in CATALOGUE.items()}
    names["local:/path/to/model.gguf"] = "any GGUF file"
    for provider in sorted(PROVIDERS.keys() - {"local"}):
        dialect = DIALECTS.get(provider)
        names[example(provider)] = key_state(dialect) if dialect is not None else ""
    names["openai@https://host/v1:NAME"] = "any server that speaks like a provider, at its address"
    width = max(map(len, names)) + 2
    for form, what in names.items():
        write(f"{form:<{width}}{what}".rstrip())
    return 0


def _described(model: PinnedModel) -> str:
    damage = model.damage()
    command = f"ziggurat models install {model.name}"
    state = f"installed: {model.path}" if damage is None else f"not installed; run: {command}"
    return f"{model.title}, {model.size / 1e6:.0f} MB, {model.licence}; for {model.good_for} ({state})"


def install_model(name: str) -> int:
    """Install a model of the catalogue; write its path, and on standard error what else it needs."""
    model = pinned(name)
    there = model.damage() is None
    if not there:
        note(f"{model.title}, {model.size / 1e6:.0f} MB, licence {model.licence}")
        note(f"good for {model.good_for}; not for {model.not_for}")
    path = install(name)
    write("already installed" if there else "installed", sys.stderr)
    write(str(path))
    if find_spec("xllamacpp") is None:
        note("to run it you also need: pip install 'ziggurat[local]'")
    return 0


def remove_model(name: str) -> int:
    """Delete a model of the catalogue, and what an interrupted installation of it left."""
    write("removed" if remove(name) else "not installed", sys.stderr)
    return 0
