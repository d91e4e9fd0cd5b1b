"""Providers: models of hosted services and of this machine, one function each."""

from typing import TYPE_CHECKING

from ziggurat.core.lazy import lazy

if TYPE_CHECKING:
    from ziggurat.http.limits import Limits as Limits
    from ziggurat.models.http.providers import (
        anthropic as anthropic,
        azure as azure,
        cerebras as cerebras,
        deepseek as deepseek,
        fireworks as fireworks,
        gemini as gemini,
        groq as groq,
        llamacpp as llamacpp,
        lmstudio as lmstudio,
        mistral as mistral,
        ollama as ollama,
        openai as openai,
        openai_responses as openai_responses,
        openrouter as openrouter,
        together as together,
        vllm as vllm,
        xai as xai,
    )
    from ziggurat.models.local.catalogue import install as install
    from ziggurat.models.local.templated import local as local
    from ziggurat.models.resolving import PROVIDERS as PROVIDERS, known_models as known_models, resolve as resolve
    from ziggurat.models.selection import select_model as select_model
else:  # type checkers would accept any name of a module with __getattr__
    __getattr__, __dir__, __all__ = lazy(__name__)
