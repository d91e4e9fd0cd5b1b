"""``ziggurat models``: lists model names, and installs and removes models of the catalogue."""

import sys
from importlib.util import find_spec
from typing import Annotated

import typer
from typer import Argument

from ziggurat.cli.doctor import example, key_state
from ziggurat.cli.terminal import note, write, write_table
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.local.catalogue import CATALOGUE, PinnedModel, install, pinned, remove
from ziggurat.models.resolving import PROVIDERS

models: typer.Typer = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@models.callback()
def _models() -> None:
    """List models, install those of the catalogue, and remove them.

    \b
    Examples:
      ziggurat models list
      ziggurat models install coder
      ziggurat models remove coder
    """


@models.command("list")
def _list() -> None:
    """List the forms of model names, and what each provider needs.

    API keys are shown by their environment variables, never by their values.

    \b
    Example:
      ziggurat models list
    """
    names = {"demo": "the demo model: first runs and tests; needs no installation"}
    names |= {f"local:{name}": _described(model) for name, model in CATALOGUE.items()}
    names["local:/path/to/model.gguf"] = "any GGUF file"
    for provider in sorted(PROVIDERS.keys() - {"demo", "local"}):
        dialect = DIALECTS.get(provider)
        names[example(provider)] = key_state(dialect) if dialect is not None else ""
    names["openai@https://host/v1:NAME"] = "any server that speaks like a provider, at its address"
    write_table(list(names.items()))


def _described(model: PinnedModel) -> str:
    damage = model.damage()
    command = f"ziggurat models install {model.name}"
    state = f"installed: {model.path}" if damage is None else f"not installed; run: {command}"
    return f"{model.title}, {model.size / 1e6:.0f} MB, {model.licence}; for {model.good_for} ({state})"


@models.command("install")
def _install(
    name: Annotated[str, Argument(help="Its name in the catalogue: coder (1.1 GB) or smollm (98 MB).")],
) -> None:
    """Download a model of the catalogue, and verify it.

    It is downloaded once and stored in the cache: $ZIGGURAT_CACHE, else ~/.cache/ziggurat. An interrupted download is
    continued by the same command. The file's path is written to standard output.

    \b
    Examples:
      ziggurat models install coder && ziggurat run --model local:coder "What is 12 * (7 + 5)?"
    """
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


@models.command("remove")
def _remove(
    name: Annotated[str, Argument(help="Its name in the catalogue, as listed by: ziggurat models list.")],
) -> None:
    """Delete a model of the catalogue from the cache, and what an interrupted installation of it left.

    \b
    Example:
      ziggurat models remove coder
    """
    write("removed" if remove(name) else "not installed", sys.stderr)
