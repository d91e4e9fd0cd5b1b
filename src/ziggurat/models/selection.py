"""Select a model where none is named: ``Agent("auto")``, and the command line by default."""

import json
import os
import threading
from concurrent.futures import Future, wait
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.http.endpoint import base_of, key_of

MODEL = "ZIGGURAT_MODEL"
PROBE_SECONDS = 0.3  # how long local servers may take to answer, all together

EXAMPLES = {
    "anthropic": "claude-sonnet-4-5",
    "azure": "NAME-OF-YOUR-DEPLOYMENT",
    "cerebras": "gpt-oss-120b",
    "deepseek": "deepseek-chat",
    "fireworks": "accounts/fireworks/models/gpt-oss-120b",
    "gemini": "gemini-2.5-flash",
    "groq": "openai/gpt-oss-20b",
    "llamacpp": "default",
    "lmstudio": "openai/gpt-oss-20b",
    "mistral": "mistral-small-latest",
    "ollama": "llama3.2",
    "openai": "gpt-5-mini",
    "openai-responses": "gpt-5-mini",
    "openrouter": "openai/gpt-5-mini",
    "together": "openai/gpt-oss-20b",
    "vllm": "openai/gpt-oss-20b",
    "xai": "grok-4",
}
"""One model of each provider as an example, and as the one that is selected if only a key is set."""

_HOSTED = (
    *("openai", "anthropic", "gemini", "mistral", "groq", "deepseek"),
    *("xai", "openrouter", "together", "fireworks", "cerebras"),
)
_SERVERS = ("ollama", "lmstudio", "llamacpp", "vllm")
_LARGEST = 1_000_000  # how many bytes of a list of models are read
_LONGEST_NAME = 200


class SelectedModel(msgspec.Struct, frozen=True):
    """The model that was selected.

    Attributes:
        name: Its name, as `resolve` takes it.
        why: Why it was selected, such as ``"OPENAI_API_KEY is set"``.
    """

    name: str
    why: str


def select_model() -> SelectedModel:
    """Return the name of the model that ``Agent("auto")`` uses here, and why.

    It is the first that there is, in this order: ``$ZIGGURAT_MODEL``; a provider whose key is in its environment
    variable; a server of Ollama, LM Studio, llama.cpp or vLLM that answers ``/v1/models`` with a model; a model that
    ``ziggurat models install`` installed; the demo model. Servers are asked at the same time, for at most 0.3 s
    together, and only if nothing before them was found.
    """
    configured = os.environ.get(MODEL, "").strip()
    if configured and configured != "auto":
        return SelectedModel(configured, f"{MODEL} is set")
    return _with_key() or _served() or _installed()


def _with_key() -> SelectedModel | None:
    for name in _HOSTED:
        for variable in DIALECTS[name].key_variables:
            if os.environ.get(variable, "").strip():
                return SelectedModel(f"{name}:{EXAMPLES[name]}", f"{variable} is set")
    return None


def _served() -> SelectedModel | None:
    answers = [(DIALECTS[name], base := base_of(DIALECTS[name], None), _ask(DIALECTS[name], base)) for name in _SERVERS]
    wait([answer for _, _, answer in answers], timeout=PROBE_SECONDS)
    for dialect, base, answer in answers:
        if answer.done() and answer.exception() is None:
            return SelectedModel(f"{dialect.name}:{answer.result()}", f"a server answers at {base}")
    return None


def _installed() -> SelectedModel:
    from ziggurat.models.local.catalogue import installed_models

    for model in installed_models():
        return SelectedModel(f"local:{model.name}", "it is installed")
    return SelectedModel("demo", "there is no key, no local server and no other model")


def _ask(dialect: Dialect, base: str) -> "Future[str]":
    """Ask a server for its models in a thread; the future has the name of the first one."""
    # The thread is a daemon, so that a server that never stops sending does not keep the process.
    answer: Future[str] = Future()

    def ask() -> None:
        try:
            name = _first_model(base, key_of(dialect, needed=False))
        except Exception as error:  # noqa: BLE001 - whatever answers there is no server with a list of models
            answer.set_exception(error)
        else:
            answer.set_result(name)

    threading.Thread(target=ask, name=f"ziggurat-probe-{dialect.name}", daemon=True).start()
    return answer


def _first_model(base: str, key: str) -> str:
    parts = urlsplit(base)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=10 * PROBE_SECONDS)
    try:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", f"{parts.path}/models", headers=headers)
        with connection.getresponse() as reply:
            body = reply.read(_LARGEST) if reply.status == 200 else b""
    finally:
        connection.close()
    listed: Any = json.loads(body)
    names = [model["id"] for model in listed["data"]]
    name = next((name for name in names if _is_name(name)), None)
    if name is None:
        raise ValueError("it lists no model")
    return str(name)


def _is_name(name: Any) -> bool:
    if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
        return False
    return bool(name.strip()) and "embed" not in name.lower()
