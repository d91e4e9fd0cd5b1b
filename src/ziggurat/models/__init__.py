"""Models: services from a `ModelRequest` to a `ModelResponse`.

- For tests and your own: `scripted`, `function`, `replay`, with `reply`; `real` forbids calls to all others.
- Hosted: `http`, with the wire formats `anthropic`, `openai` and `openai_responses`; `resolving` finds a model by its
  name, `selection` one where none is named.
- In this process: `local`. For models that only write text: `react_protocol`. Embedders: `embed`. Streams
  of JSON: `brackets`.
"""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "messages.embedding": ("EmbedRequest", "Embeddings"),
        "messages.model": ("Model", "ModelRequest", "ModelResponse", "ModelSettings"),
        "models.embed.resolve": ("cached", "resolve_embedder"),
        "models.embed.endpoint": ("HttpEmbedder", "http_embedder"),
        "models.function": ("FunctionModel",),
        "models.http.dialect": ("window_of",),
        "models.local": ("EmbeddedModel", "TemplatedModel", "install", "installed"),
        "models.local.minilm": ("MiniLm",),
        "models.react_protocol.layer": ("react",),
        "models.react_protocol.parser": ("ReactParser",),
        "models.react_protocol.prompt": ("FINAL_ANSWER",),
        "models.real": ("allow_real_calls", "forbid_real_calls", "require_real_calls_allowed"),
        "models.replay": ("ReplayModel",),
        "models.reply": ("model_facts",),
        "models.resolving": ("PROVIDERS", "known_models", "resolve"),
        "models.scripted": ("PAUSE", "Pause", "ScriptedModel", "ScriptedReply"),
    },
)
