"""Resolve ``"provider:name"`` to a model."""

import re
from collections.abc import Callable
from importlib import import_module
from inspect import isasyncgenfunction, iscoroutinefunction, isgeneratorfunction
from types import FunctionType
from typing import cast

from ziggurat.core.errors import ConfigurationError
from ziggurat.core.log import logger
from ziggurat.core.service import as_service, name_of, returned_instead
from ziggurat.core.settings import takes
from ziggurat.core.similar import similar
from ziggurat.messages.model import Model, ModelResponse

_HTTP = (
    "anthropic azure cerebras deepseek fireworks gemini groq llamacpp lmstudio mistral ollama openai openai-responses "
    "openrouter together vllm xai"
)
PROVIDERS: dict[str, str] = {
    "demo": "ziggurat.models.local.demo:EmbeddedModel",
    "local": "ziggurat.models.local.templated:local",
    **{name: f"ziggurat.models.http.providers:{name.replace('-', '_')}" for name in _HTTP.split()},
}
"""The factory of each provider's models as ``module:factory``; it takes the model's name.

The module is imported when a model of the provider is first resolved. Add entries to name models of your own.
"""

_REPLIES = ("str", "Message", "ModelResponse")
_DEMO = "demo"  # the one model whose provider has no others
_HERE = (_DEMO, "local")
_FORMS = {
    "demo": ("demo",),
    "local": ("local:NAME", "local:/path/to/model.gguf"),
    "openai": ("openai:NAME", "openai@https://host/v1:NAME"),
}
_FAMILIES = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4-": "openai",
    "claude-": "anthropic",
    "gemini-": "gemini",
    "grok-": "xai",
    "deepseek-": "deepseek",
    "mistral-": "mistral",
}
"""The providers of model names that are often given without a provider, by the beginning of the name."""
# What has been read as a part of the address is never read again as the model's name ("+"): without one, the key would
# go to another port or host.
_ELSEWHERE = re.compile(
    r"([\w-]+)@(https?://(?:[^\s/@]*@)?+(?:\[[^\]\s]+\]|[^\s:/\[]+)(?::\d++(?=[:/]|$))?+(?:/[^\s:]*)?+):(.+)"
)


def resolve(spec: str | Model) -> Model:
    """Return the model with a name, such as ``"demo"`` or ``"openai:gpt-5-mini"``; a service is returned as it is.

    ``"demo"`` is the demo model, ``"local:coder"`` an installed model, and ``"local:/path/to/model.gguf"`` any other
    model file. ``"openai:gpt-5-mini"`` is a provider's model, and ``"openai@https://host/v1:name"`` one at your own
    address with that provider's protocol. ``"auto"`` is the model that `select_model` finds.

    Raises:
        ConfigurationError: there is no model with this name; the message lists the known forms.
        MissingExtra: the provider needs a package that is not installed.
    """
    if not isinstance(spec, str):
        if callable(spec) and not isinstance(spec, type):
            _check_function(spec)
            _check_answer(spec)
            return as_service(spec)
        what = f"the class {spec.__name__}; make an object of it" if isinstance(spec, type) else type(spec).__name__
        raise ConfigurationError(f"resolve(spec=...) is {_wanted()}; got {what}")
    if spec.strip() == "auto":
        return _selected()
    if "@" in spec.partition(":")[0]:
        return _elsewhere(spec.strip())
    provider, colon, name = (part.strip() for part in spec.partition(":"))
    if not spec.strip():
        raise ConfigurationError(f"the model's name is empty; a model is {_wanted()}")
    if provider not in PROVIDERS:
        raise ConfigurationError(_unknown(spec, provider, bool(colon)))
    if provider == _DEMO:
        if colon:
            raise ConfigurationError(f"there is one demo model, so {spec!r} must be written {_DEMO!r}")
        return cast("Model", _factory(provider)())
    if not name:
        demo = f"; the demo model, which needs no file, is {_DEMO!r}" if provider == "local" else ""
        raise ConfigurationError(
            f"the model {spec!r} lacks a name after its provider; write {' or '.join(_forms(provider))}{demo}"
        )
    return cast("Model", _factory(provider)(name))


def _selected() -> Model:
    from ziggurat.models.selection import select_model

    selected = select_model()
    logger.info("the model is %s: %s", selected.name, selected.why)
    return resolve(selected.name)


def _check_function(model: Model) -> None:
    """Raise where a plain function cannot be a model, which would fail only when it is first called."""
    if not isinstance(model, FunctionType):
        return
    returns = model.__annotations__.get("return")
    if not takes(model, 2) or isgeneratorfunction(model) or isasyncgenfunction(model):
        why = "cannot be called so"
    elif not iscoroutinefunction(model) and getattr(returns, "__name__", returns) in _REPLIES:
        why = "is not async"
    else:
        return
    raise ConfigurationError(
        f"a model is an async callable (request, ctx), and the function {model.__name__}() {why}; "
        f"wrap it: FunctionModel({model.__name__ if model.__name__.isidentifier() else '...'})"
    )


def _check_answer(model: Model) -> None:
    """Raise if a service is known to answer with anything but what a model does: an agent, a tool, a function."""
    returned = returned_instead(model, ModelResponse)
    if returned:
        name = name_of(model)
        wrapped = f"; wrap it: FunctionModel({name})" if returned in ("str", "Message") else ""
        raise ConfigurationError(f"a model answers with a ModelResponse, but {name} returns {returned}{wrapped}")


def _elsewhere(spec: str) -> Model:
    parts = _ELSEWHERE.fullmatch(spec)
    if parts is None:
        from ziggurat.databases.address import without_secrets

        raise ConfigurationError(
            f"cannot read {without_secrets(spec)!r}: a model at an address of yours is written "
            "'openai@https://host/v1:name', with http:// or https:// and a name after the last colon"
        )
    if parts[1] in _HERE:
        raise ConfigurationError(
            f"{parts[1]!r} runs in this process and has no address; write {' or '.join(_forms(parts[1]))}"
        )
    if parts[1] not in PROVIDERS:
        raise ConfigurationError(_unknown(parts[1], parts[1], True))
    return cast("Model", _factory(parts[1])(parts[3].strip(), base_url=parts[2]))


def known_models() -> tuple[str, ...]:
    """Return the forms of names that `resolve` reads, such as ``"openai:NAME"``; those of this process first."""
    providers = sorted(PROVIDERS, key=lambda provider: (provider not in _HERE, provider))
    return tuple(form for provider in providers for form in _forms(provider))


def _forms(provider: str) -> tuple[str, ...]:
    return _FORMS.get(provider, (f"{provider}:NAME",))


def _wanted() -> str:
    return f"one of {', '.join(known_models())}, or an async callable (request, ctx)"


def _unknown(spec: str, provider: str, named: bool) -> str:
    meant = _meant(spec.strip(), provider)
    meant = f"; did you mean {meant!r}?" if meant else ""
    what = f"there is no provider {provider!r}" if named else f"there is no model {spec!r}"
    return f"{what}{meant or '.'} A model is {_wanted()}"


def _meant(spec: str, provider: str) -> str:
    maker, slash, name = spec.partition("/")
    if slash and maker.lower() in PROVIDERS:
        return f"{maker.lower()}:{name}"
    of = next((of for begins, of in _FAMILIES.items() if spec.lower().startswith(begins)), None)
    if of in PROVIDERS and ":" not in spec:
        return f"{of}:{spec}"
    near = similar(provider, PROVIDERS)
    return near[0] + spec[len(provider) :] if near and near[0] != spec else ""


def _factory(provider: str) -> Callable[..., object]:
    target = PROVIDERS[provider]
    module, _, factory = target.partition(":")
    try:
        return cast("Callable[..., object]", getattr(import_module(module), factory))
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        why: Exception = error
    except (AttributeError, ValueError) as error:
        why = error
    raise ConfigurationError(
        f"the provider {provider!r} is listed as {target!r}, which is not 'module:factory' of something there ({why}); "
        "fix its entry in PROVIDERS"
    ) from why
