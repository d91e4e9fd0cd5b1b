"""The hosted and local-server providers: each makes models by name.

::

    from ziggurat.models.http.providers import openai

    model = openai("gpt-5-mini", key="...", limits=Limits(idle=60))
"""

import os
import ssl
from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.http.client import Client, Transport, UserClient
from ziggurat.http.limits import Limits
from ziggurat.models.http.dialect import DIALECTS, Dialect, at_address, dialect_of
from ziggurat.models.http.service import Endpoint, HttpModel, Key, Wire


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
        return HttpModel(model, wire=wire, endpoint=endpoint, window=window, native_output=_native_output(wire, model))

    def __repr__(self) -> str:
        return f"provider({self.dialect.name!r})"


def endpoint_of(
    dialect: Dialect,
    model: str,
    key: Key | None,
    base_url: str | None,
    headers: Mapping[str, str] | None,
    limits: Limits | None,
    proxy: str | None,
    ca: str | ssl.SSLContext | None,
    client: Any,
) -> Endpoint:
    """Return where a provider takes requests; the arguments are those of `Provider`."""
    dialect = at_address(dialect, base_of(dialect, base_url))
    if not isinstance(model, str) or not model.strip():
        raise ConfigurationError(f"{dialect.name}() needs the name of a model, got {model!r}")
    if key is None:
        key = key_of(dialect, needed=dialect.key_needed and base_url is None)
    return Endpoint(model, dialect, _transport(dialect, limits, proxy, ca, client), key, headers)


def _transport(
    dialect: Dialect, limits: Limits | None, proxy: str | None, ca: str | ssl.SSLContext | None, client: Any
) -> Transport:
    """Return the HTTP transport to a provider: our own client, or the user's."""
    if client is None:
        return Client(dialect.base_url, name=dialect.name, limits=limits, proxy=proxy, ca=ca)
    if proxy is not None or ca is not None:
        raise ConfigurationError("a client of yours has its own proxy and certificates; leave out proxy= and ca=")
    if isinstance(client, Client):
        return client
    origin = "/".join(dialect.base_url.split("/", 3)[:3])
    return UserClient(client, origin, name=dialect.name, limits=limits or Limits())


def _native_output(wire: Wire, model: str) -> bool:
    """Return whether a model supports native output; the wire knows if the provider's models differ."""
    capabilities = getattr(wire, "capabilities", None)
    return True if capabilities is None else bool(capabilities(model).native_output)


def _first(variables: tuple[str, ...]) -> str:
    return next((value for name in variables if (value := os.environ.get(name, "").strip())), "")


def base_of(dialect: Dialect, base: str | None) -> str:
    """Return the base URL of a provider: as given, or from its variable, or its own address."""
    if base is not None:
        return base.rstrip("/")
    address = _first(dialect.base_variables).rstrip("/")
    if not address:
        if not dialect.base_url:
            raise ConfigurationError(
                f"{dialect.name} has no address of its own: set {dialect.base_variables[0]}, or pass base_url='https://...'"
            )
        return dialect.base_url
    if "://" not in address:  # Ollama's own programs use host:port
        address = f"http://{address.replace('0.0.0.0', '127.0.0.1', 1)}"  # noqa: S104
    if not dialect.base_suffix or address.endswith(dialect.base_suffix):
        return address
    return address + dialect.base_suffix


def key_of(dialect: Dialect, *, needed: bool) -> str:
    """Return the key in a provider's variables; empty if there is none, an error if one is needed."""
    key = _first(dialect.key_variables)
    if not key and needed:
        either = " or ".join(dialect.key_variables)
        raise ConfigurationError(
            f"{dialect.name} needs a key: set the environment variable {either}, or pass key='...'"
        )
    return key


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
