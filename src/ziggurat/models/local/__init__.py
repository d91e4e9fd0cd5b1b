"""Models that run inside this process: the demo model, and any GGUF file.

- The `demo` model chooses one tool, and fills its parameters with parts of the request (`spans`).
- Any GGUF file: `templated` shows it the conversation (`transcript`), and reads `replies` under a grammar, on the
  `engine`. Calls get only what is stated.
- The `catalogue` of models that `install` downloads by name.
"""

from pathlib import Path

from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.models.local.catalogue import (
    CATALOGUE,
    PinnedModel,
    Progress,
    cache_directory,
    check_installed,
    install,
    installed,
    installed_models,
    pinned,
    progress_bar,
    remove,
)
from ziggurat.models.local.demo import EmbeddedModel
from ziggurat.models.local.engine import CONTEXT, SLOTS, Engine, engine_for
from ziggurat.models.local.minilm import Embedder, shared_embedder
from ziggurat.models.local.templated import TemplatedModel

__all__ = [
    "CATALOGUE",
    "EmbeddedModel",
    "Embedder",
    "Engine",
    "PinnedModel",
    "Progress",
    "TemplatedModel",
    "cache_directory",
    "engine_for",
    "install",
    "installed",
    "installed_models",
    "local",
    "progress_bar",
    "remove",
    "shared_embedder",
]


@checked
def local(
    path: NonEmptyText | Path,
    *,
    slots: PositiveInt = SLOTS,
    context: PositiveInt = CONTEXT,
    stated_only: bool = True,
    only_calls: bool | None = None,
) -> TemplatedModel:
    """Return the model in a GGUF file; the weights load with the first request.

    Args:
        path: A GGUF file, or the name of an installed model of the catalogue.
        slots: Requests that are served at the same time.
        context: The context size in tokens, shared by the slots.
        stated_only: Whether optional arguments that the conversation does not state are left out of the calls: small
            models invent them. Pass False for a model that infers them well.
        only_calls: Whether answers to requests that have tools are never in the model's own words, but what the calls
            returned: small models state what no call has done. By default only those of ``coder``.

    Raises:
        ConfigurationError: there is no such file, it is not a GGUF file, the model is not installed, or a number is
            below one.

    ::

        Agent(local("coder"), tools=[weather])
        Agent(local("models/qwen.gguf", context=16_384), tools=[weather])
    """
    model, name = None, None
    if path in CATALOGUE:
        check_installed(str(path))
        model, name = pinned(str(path)), str(path)
    engine = engine_for(Path(path) if model is None else model.path, slots=slots, context=context)
    if only_calls is None:
        only_calls = model is not None and model.only_calls
    return TemplatedModel(engine, name=name, stated_only=stated_only, only_calls=only_calls)
