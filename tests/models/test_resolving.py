"""resolve: a name or a service becomes a model; errors list the known models."""

import sys
from collections.abc import AsyncIterator, Iterator
from types import ModuleType

import pytest

from tests.wrong import wrong
from ziggurat import Agent, ConfigurationError, Context, ModelRequest, stack, tool
from ziggurat.layers.pipeline import pipeline
from ziggurat.layers.retry import retry
from ziggurat.providers import PROVIDERS, known_models, resolve
from ziggurat.testing import ScriptedModel


@pytest.fixture
def provider() -> Iterator[None]:
    module = ModuleType("made_up_provider")

    def make(name: str | None = None) -> ScriptedModel:
        return ScriptedModel(always=f"I am {name}", name=name or "nameless")

    module.make = make  # type: ignore[attr-defined]
    sys.modules["made_up_provider"] = module
    before = dict(PROVIDERS)
    for name in set(PROVIDERS) - {"demo", "local"}:
        del PROVIDERS[name]
    PROVIDERS["acme"] = "made_up_provider:make"
    yield
    PROVIDERS.clear()
    PROVIDERS.update(before)
    del sys.modules["made_up_provider"]


def test_a_service_is_returned_as_it_is() -> None:
    model = ScriptedModel("x")
    assert resolve(model) is model


def _sync(request: ModelRequest, ctx: Context) -> str:
    return "hi"


async def _pieces(request: ModelRequest, ctx: Context) -> AsyncIterator[str]:
    yield "hi"


async def _text(request: ModelRequest, ctx: Context) -> str:
    return "hi"


def _look(text: str) -> str:
    """Look something up."""
    return text


@pytest.mark.parametrize(
    ("service", "why"),
    [
        (_text, r"str.*FunctionModel\(_text\)"),
        (stack(_text, retry()), r"str.*FunctionModel\(_text\)"),
        (tool(_look), "_look returns ToolResult"),
        (Agent(ScriptedModel("x")), "agent returns AgentRun"),
        (Agent(ScriptedModel("x")).layered(retry()), "agent returns AgentRun"),
        (pipeline(ScriptedModel("x"), wrong(_text)), "returns str"),
    ],
)
def test_a_service_that_answers_with_something_else_is_no_model(service: object, why: str) -> None:
    for make in (resolve, Agent):
        with pytest.raises(ConfigurationError, match=why):
            make(wrong(service))


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda request: "hi", "FunctionModel"),
        (lambda request, ctx, more: "hi", "called"),
        (_pieces, r"FunctionModel\(_pieces\)"),
        (_sync, "async"),
    ],
)
def test_a_function_that_is_no_model_is_refused_with_the_fix(function: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        resolve(wrong(function))


def test_a_function_that_passes_a_call_on_is_a_model() -> None:
    inner = ScriptedModel("hi")
    assert Agent(lambda request, ctx: inner(request, ctx)).run_sync("Hello").text == "hi"


@pytest.mark.usefixtures("provider")
def test_a_name_is_given_to_the_factory_of_its_provider() -> None:
    assert repr(resolve("acme:big-1")) == "scripted('big-1', always)"
    assert repr(resolve(" acme : http://host:80/x ")) == "scripted('http://host:80/x', always)"


@pytest.mark.usefixtures("provider")
def test_demo_takes_no_name_and_local_takes_a_path() -> None:
    PROVIDERS["demo"] = PROVIDERS["local"] = "made_up_provider:make"
    assert "nameless" in repr(resolve("demo"))
    assert "/models/x.gguf" in repr(resolve("local:/models/x.gguf"))


@pytest.mark.usefixtures("provider")
def test_known_models() -> None:
    assert known_models() == ("demo", "local:NAME", "local:/path/to/model.gguf", "acme:NAME")


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ("acne:big", "did you mean 'acme:big'"), ("Demo", "did you mean 'demo'"), ("gpt-5", "'gpt-5'"),
        ("zzz:gpt-5", "'zzz'"), ("acme", "write acme:NAME"), ("acme:", "write acme:NAME"),
        ("local:", "local:/path/to/model.gguf"), ("local", "'demo'"), ("local", "local:NAME"), ("demo:x", "'demo'"),
        ("", "empty"), ("  ", "empty"), (":x", "''"), (None, "NoneType"),
        (7, "int"), (ScriptedModel, "make an object of it"),
    ],
)  # fmt: skip
def test_mistakes_list_what_there_is(spec: object, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(spec)  # type: ignore[arg-type]
    assert told in str(caught.value)
    assert any(form in str(caught.value) for form in ("acme:NAME", "local:/path/to/model.gguf", "'demo'"))


@pytest.mark.usefixtures("provider")
@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module_here:make", "no_such_module_here"),
        ("made_up_provider:other", "'made_up_provider:other'"),
        ("", "'module:factory'"),
    ],
)
def test_a_wrong_entry_of_the_table_is_named(target: str, message: str) -> None:
    PROVIDERS["acme"] = target
    with pytest.raises(ConfigurationError, match=message):
        resolve("acme:x")


def test_the_demo_model_is_there_and_a_missing_file_is_named() -> None:
    assert callable(resolve("demo"))
    with pytest.raises(ConfigurationError, match="no-such-file"):
        resolve("local:/no-such-file.gguf")


@pytest.mark.parametrize(
    ("spec", "meant"),
    [
        ("gpt-5-mini", "openai:gpt-5-mini"), ("o3", "openai:o3"), ("Claude-sonnet-4-5", "anthropic:Claude-sonnet-4-5"),
        ("gemini-2.5-pro", "gemini:gemini-2.5-pro"), ("openai/gpt-5-mini", "openai:gpt-5-mini"),
        ("Anthropic/claude-haiku-4-5", "anthropic:claude-haiku-4-5"), ("OpenAI:gpt-5", "openai:gpt-5"),
        ("gtp:x", None), ("acme/x", None),
    ],
)  # fmt: skip
def test_a_name_without_its_provider_is_told_with_it(spec: str, meant: str | None) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve(spec)
    told = str(caught.value)
    assert (f"did you mean {meant!r}?" in told) if meant else ("did you mean" not in told)


@pytest.mark.parametrize("name", ["demo", "local"])
def test_a_model_in_this_process_has_no_address(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'{name}'"):
        resolve(f"{name}@http://localhost:8080/v1:x")
