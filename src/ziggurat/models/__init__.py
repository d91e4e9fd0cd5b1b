"""Models: services from a `ModelRequest` to a `ModelResponse`.

- For tests and your own: `scripted`, `function`, `replay`, with `reply`; `real` forbids calls to all others.
- Hosted: `http`, with the wire formats `anthropic`, `openai` and `openai_responses`; `resolving` finds a model by its
  name, `windows` knows the sizes of context windows.
- In this process: `local`. For models that only write text: `react_protocol`. Embedders: `embed`. Streams
  of JSON: `brackets`.
"""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.messages.embedding import Embeddings, EmbedRequest
    from ziggurat.messages.model import Model, ModelRequest, ModelResponse, ModelSettings
    from ziggurat.models.embed.cached import cached
    from ziggurat.models.embed.endpoint import HttpEmbedder, http_embedder
    from ziggurat.models.embed.minilm import MiniLm
    from ziggurat.models.embed.resolve import resolve_embedder
    from ziggurat.models.function import FunctionModel
    from ziggurat.models.local import EmbeddedModel, TemplatedModel, install, installed
    from ziggurat.models.react_protocol import FINAL_ANSWER, ReactParser, react
    from ziggurat.models.real import allow_real_calls, forbid_real_calls, require_real_calls_allowed
    from ziggurat.models.replay import ReplayModel
    from ziggurat.models.reply import model_facts
    from ziggurat.models.resolving import PROVIDERS, known_models, resolve
    from ziggurat.models.scripted import PAUSE, Pause, ScriptedModel, ScriptedReply
    from ziggurat.models.windows import window_of
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "messages.embedding": ("EmbedRequest", "Embeddings"),
            "messages.model": ("Model", "ModelRequest", "ModelResponse", "ModelSettings"),
            "models.embed.cached": ("cached",),
            "models.embed.endpoint": ("HttpEmbedder", "http_embedder"),
            "models.embed.minilm": ("MiniLm",),
            "models.embed.resolve": ("resolve_embedder",),
            "models.function": ("FunctionModel",),
            "models.local": ("EmbeddedModel", "TemplatedModel", "install", "installed"),
            "models.react_protocol": ("FINAL_ANSWER", "ReactParser", "react"),
            "models.real": ("allow_real_calls", "forbid_real_calls", "require_real_calls_allowed"),
            "models.replay": ("ReplayModel",),
            "models.reply": ("model_facts",),
            "models.resolving": ("PROVIDERS", "known_models", "resolve"),
            "models.scripted": ("PAUSE", "Pause", "ScriptedModel", "ScriptedReply"),
            "models.windows": ("window_of",),
        },
    )

__all__ = [
    "FINAL_ANSWER",
    "PAUSE",
    "PROVIDERS",
    "EmbedRequest",
    "EmbeddedModel",
    "Embeddings",
    "FunctionModel",
    "HttpEmbedder",
    "MiniLm",
    "Model",
    "ModelRequest",
    "ModelResponse",
    "ModelSettings",
    "Pause",
    "ReactParser",
    "ReplayModel",
    "ScriptedModel",
    "ScriptedReply",
    "TemplatedModel",
    "allow_real_calls",
    "cached",
    "forbid_real_calls",
    "http_embedder",
    "install",
    "installed",
    "known_models",
    "model_facts",
    "react",
    "require_real_calls_allowed",
    "resolve",
    "resolve_embedder",
    "window_of",
]
