"""The hosted and local-server providers: each makes models by name.

::

    from ziggurat.models.http.providers import openai

    model = openai("gpt-5-mini", key="...", limits=Limits(idle=60))
"""

import ssl
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from ziggurat.core.settings import checked
from ziggurat.http.limits import Limits
from ziggurat.models.http.dialect import DIALECTS, Dialect, dialect_of
from ziggurat.models.http.endpoint import Key, endpoint_of
from ziggurat.models.http.service import HttpModel, Wire


class Provider:
    """Makes models of one provider; see `__call__`."""

    @checked
    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect

    def __call__(
        self,
        model: str,
        *,
        key: Key | None = None,
        base_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        limits: Limits | None = None,
        window: int | None = None,
        proxy: str | None = None,
        ca: str | ssl.SSLContext | None = None,
        client: Any = None,
    ) -> HttpModel:
        """Make a model.

        Args:
            model: The provider's name of the model.
            key: The API key, or a function called for one before each call; by default from the provider's variable.
            base_url: The base URL of the API; by default from the provider's variable, or its own address.
            headers: Additional headers of every call.
            limits: Limits on times, sizes and connections.
            window: The context window in tokens.
            proxy: The URL of a proxy; ``""`` for none, None for the one in the environment variables.
            ca: A file or folder of certificate authorities to trust, or your own SSLContext.
            client: Your own ``httpx.AsyncClient``, whose timeouts, proxies and certificates then apply; it is not
                closed.

        Raises:
            ConfigurationError: the key or the URL is missing or invalid; the message names the variable to set.
            MissingExtra: the HTTP package is not installed.
        """
        endpoint = endpoint_of(self.dialect, model, key, base_url, headers, limits, proxy, ca, client)
        wire = cast("Wire", import_module(f"ziggurat.models.{self.dialect.wire}"))
        capabilities = getattr(wire, "capabilities", None)  # if the provider's models differ in theirs
        native = capabilities is None or capabilities(model).native_output
        return HttpModel(model, wire=wire, endpoint=endpoint, window=window, native_output=native)

    def __repr__(self) -> str:
        return f"provider({self.dialect.name!r})"


def provider(name: str) -> Provider:
    """Return a provider by name, ``"openai"`` or ``"openai@https://host/v1"``.

    Raises:
        ConfigurationError: there is no provider with this name.
    """
    return Provider(dialect_of(name))


anthropic: Provider = Provider(DIALECTS["anthropic"])
"""Models of Anthropic."""
azure: Provider = Provider(DIALECTS["azure"])
"""Models of OpenAI on Azure."""
cerebras: Provider = Provider(DIALECTS["cerebras"])
"""Models on Cerebras."""
deepseek: Provider = Provider(DIALECTS["deepseek"])
"""Models of DeepSeek."""
fireworks: Provider = Provider(DIALECTS["fireworks"])
"""Models on Fireworks."""
gemini: Provider = Provider(DIALECTS["gemini"])
"""Gemini models, by Google's API in the format of OpenAI."""
groq: Provider = Provider(DIALECTS["groq"])
"""Models on Groq."""
llamacpp: Provider = Provider(DIALECTS["llamacpp"])
"""A server of llama.cpp."""
lmstudio: Provider = Provider(DIALECTS["lmstudio"])
"""A server of LM Studio."""
mistral: Provider = Provider(DIALECTS["mistral"])
"""Models of Mistral."""
ollama: Provider = Provider(DIALECTS["ollama"])
"""A server of Ollama."""
openai: Provider = Provider(DIALECTS["openai"])
"""Models of OpenAI, by the Chat Completions API."""
openai_responses: Provider = Provider(DIALECTS["openai-responses"])
"""Models of OpenAI, by the Responses API."""
openrouter: Provider = Provider(DIALECTS["openrouter"])
"""Models on OpenRouter."""
together: Provider = Provider(DIALECTS["together"])
"""Models on Together."""
vllm: Provider = Provider(DIALECTS["vllm"])
"""A server of vLLM."""
xai: Provider = Provider(DIALECTS["xai"])
"""Models of xAI."""
