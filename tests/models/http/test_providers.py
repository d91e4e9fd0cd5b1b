"""Providers make models: URLs, keys, and the errors when one is missing."""

import sys

import pytest

from tests.models.http.support import Asked, request, serving
from ziggurat import ConfigurationError
from ziggurat.core import root
from ziggurat.errors import MissingExtra
from ziggurat.http.client import Client
from ziggurat.models import http_embedder
from ziggurat.models.http.dialect import DIALECTS, dialect_of, headers_of
from ziggurat.models.http.providers import HttpModel
from ziggurat.providers import PROVIDERS, anthropic, known_models, openai, openai_responses, resolve

HOSTED = sorted(name for name, dialect in DIALECTS.items() if dialect.key_needed)
LOCAL = sorted(set(DIALECTS) - set(HOSTED))


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for dialect in DIALECTS.values():
        for variable in (*dialect.key_variables, *dialect.base_variables):
            monkeypatch.delenv(variable, raising=False)


def made(spec: str) -> HttpModel:
    model = resolve(spec)
    assert isinstance(model, HttpModel)
    return model


def test_every_dialect_is_a_provider() -> None:
    assert set(DIALECTS) == set(PROVIDERS) - {"demo", "local"}
    assert {dialect.name for dialect in DIALECTS.values()} == set(DIALECTS)
    assert "openai:NAME" in known_models()
    assert repr(openai_responses) == "openai_responses"


@pytest.mark.parametrize("name", HOSTED)
def test_a_missing_key_names_its_variable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name == "azure":
        with pytest.raises(ConfigurationError, match="AZURE_OPENAI_ENDPOINT"):
            resolve("azure:m")
        monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com/")
    variables = DIALECTS[name].key_variables
    with pytest.raises(ConfigurationError, match=f"{name} needs a key: set the environment variable {variables[0]}"):
        resolve(f"{name}:m")
    monkeypatch.setenv(variables[-1], "k1")
    model = made(f"{name}:m")
    assert repr(model) == f"{name}('m')"
    assert "k1" in dict(headers_of(model.dialect, "k1")).get("authorization", "k1")
    assert model.dialect.base_url.startswith("https://")


@pytest.mark.parametrize("name", LOCAL)
def test_local_servers_need_no_key(name: str) -> None:
    model = made(f"{name}:llama3:8b")
    assert model.model == "llama3:8b"
    assert model.dialect.base_url.startswith("http://127.0.0.1:")
    assert "authorization" not in dict(headers_of(model.dialect, ""))


def test_addresses_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "https://proxy.example/openai/v1/")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert made("openai:m")._endpoint._path == "/openai/v1/chat/completions"
    assert made("openai-responses:m")._endpoint._path == "/openai/v1/responses"
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:11434")
    assert made("ollama:m").dialect.base_url == "http://127.0.0.1:11434/v1"
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://mine.openai.azure.com")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "k")
    assert made("azure:m").dialect.base_url == "https://mine.openai.azure.com/openai/v1"
    assert dict(headers_of(made("azure:m").dialect, "k"))["api-key"] == "k"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
    headers = dict(headers_of(made("anthropic:claude-sonnet-4-5").dialect, "k"))
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("k", "2023-06-01")


@pytest.mark.parametrize(
    ("spec", "base", "model"),
    [
        ("openai@https://host/v1:name", "https://host/v1", "name"),
        ("openai@http://localhost:8000/v1:org/name:7b", "http://localhost:8000/v1", "org/name:7b"),
        ("anthropic@https://host:name", "https://host", "name"),
        ("vllm@http://[::1]:8000/v1/:name", "http://[::1]:8000/v1", "name"),
        ("openai@http://10.0.0.1:8080:name", "http://10.0.0.1:8080", "name"),
        ("ollama@http://host:7b", "http://host", "7b"),
    ],
)
def test_addresses_of_your_own(spec: str, base: str, model: str) -> None:
    found = made(spec)
    assert (found.dialect.base_url, found.model) == (base, model)


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        ("openai@https://host/v1", "a name after the last colon"),
        ("openai@host/v1:name", "http:// or https://"),
        ("openai@ftp://host:name", "http:// or https://"),
        ("opnai@https://host/v1:name", "did you mean"),
        ("local@https://host/v1:name", "has no address; write local:NAME or local:"),
        ("openai:", "lacks a name"),
    ],
)
def test_specs_that_cannot_be(spec: str, match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        resolve(spec)


@pytest.mark.parametrize("host", ["host", "127.0.0.1", "[::1]"])
@pytest.mark.parametrize("user", ["", "ada@", "ada:secret@"])
@pytest.mark.parametrize("rest", [":8000", ":8000/v1", ":8000/", "/v1", "/v1/", ""])
@pytest.mark.parametrize("end", ["", ":"])
def test_no_part_of_an_address_is_read_as_a_name(host: str, user: str, rest: str, end: str) -> None:
    with pytest.raises(ConfigurationError, match="name after the last colon") as caught:
        resolve(f"openai@http://{user}{host}{rest}{end}")
    assert "secret" not in str(caught.value)


def test_dialects_by_name() -> None:
    assert dialect_of("groq") is DIALECTS["groq"]
    with pytest.raises(ConfigurationError, match="there are anthropic, azure"):
        dialect_of("nobody")


async def test_settings_of_a_provider() -> None:
    with pytest.raises(ConfigurationError, match="needs the name of a model"):
        openai(" ", key="k")
    client = Client("https://shared.example")
    assert openai("a", key="k", client=client)._endpoint.transport is client

    async def answer(asked: Asked) -> None:
        assert "x-mine: 1\r\n" in asked.head
        assert "authorization" not in asked.head
        await asked.reply(
            b'{"id": "r", "object": "chat.completion", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", '
            b'"message": {"role": "assistant", "content": "hello"}}]}'
        )

    async with serving(answer) as server, openai("m", base_url=server.url, headers={"X-Mine": "1"}) as model:
        assert (await model(request(), root())).text == "hello"


def test_a_key_is_sent_to_an_address_of_your_own_when_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert made("openai@https://host/v1:name")._endpoint._key == "k"


def test_without_the_parser_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    with pytest.raises(MissingExtra, match=r"pip install 'ziggurat\[http\]'"):
        resolve("openai@https://host/v1:name")


@pytest.mark.parametrize(
    "address", ["https://ann:secret-1@host.example/v1", "https://ann@host.example", "http://@h/v1"]
)
def test_an_address_with_a_password_is_refused_as_it_would_not_be_sent(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    for make in (
        lambda: openai("m", base_url=address),
        lambda: openai("m", key="k"),
        lambda: anthropic("m", base_url=address, key="k"),
        lambda: resolve(f"openai@{address}:m"),
        lambda: http_embedder("openai:m", base_url=address),
    ):
        with pytest.raises(ConfigurationError, match="authorization") as error:
            make()
        assert "secret-1" not in str(error.value)


def test_an_address_that_cannot_be_shows_no_token() -> None:
    with pytest.raises(ConfigurationError) as error:
        openai("m", base_url="ftp://host/v1?token=secret-1")
    assert "secret-1" not in str(error.value)
