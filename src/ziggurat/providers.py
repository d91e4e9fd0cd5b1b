"""Providers: models of hosted services and of this machine, one function each."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.models.http.dialect import DIALECTS, Dialect
    from ziggurat.models.http.limits import Limits
    from ziggurat.models.http.providers import (
        Provider,
        anthropic,
        azure,
        cerebras,
        deepseek,
        fireworks,
        gemini,
        groq,
        llamacpp,
        lmstudio,
        mistral,
        ollama,
        openai,
        openai_responses,
        openrouter,
        provider,
        together,
        vllm,
        xai,
    )
    from ziggurat.models.http.user_client import UserClient
    from ziggurat.models.local import install, local
    from ziggurat.models.resolving import PROVIDERS, known_models, resolve
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "models.http.dialect": ("DIALECTS", "Dialect"),
            "models.http.limits": ("Limits",),
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
            "models.http.user_client": ("UserClient",),
            "models.local": ("install", "local"),
            "models.resolving": ("PROVIDERS", "known_models", "resolve"),
        },
    )

__all__ = [
    "DIALECTS",
    "PROVIDERS",
    "Dialect",
    "Limits",
    "Provider",
    "UserClient",
    "anthropic",
    "azure",
    "cerebras",
    "deepseek",
    "fireworks",
    "gemini",
    "groq",
    "install",
    "known_models",
    "llamacpp",
    "lmstudio",
    "local",
    "mistral",
    "ollama",
    "openai",
    "openai_responses",
    "openrouter",
    "provider",
    "resolve",
    "together",
    "vllm",
    "xai",
]
