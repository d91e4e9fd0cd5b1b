"""Providers: models of hosted services and of this machine, one function each."""

from ziggurat.core.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "models.http.dialect": ("DIALECTS", "Dialect"),
        "http.limits": ("Limits",),
        "models.http.providers": (
            "Provider",
            "anthropic",
            "azure",
            "cerebras",
            "deepseek",
            "fireworks",
            "gemini",
            "groq",
            "llamacpp",
            "lmstudio",
            "mistral",
            "ollama",
            "openai",
            "openai_responses",
            "openrouter",
            "provider",
            "together",
            "vllm",
            "xai",
        ),
        "http.user_client": ("UserClient",),
        "models.local": ("install", "local"),
        "models.resolving": ("PROVIDERS", "known_models", "resolve"),
        "models.selection": ("SelectedModel", "select_model"),
    },
)
