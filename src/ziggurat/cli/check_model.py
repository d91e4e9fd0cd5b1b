"""``ziggurat doctor --model NAME``: sends one small request to a model and reports what happened."""

import asyncio
import time
from urllib.parse import urlsplit

from ziggurat.agents.agent import Agent
from ziggurat.agents.runnable import Runnable
from ziggurat.cli.providers import example, key_state
from ziggurat.cli.report import Report
from ziggurat.core.context import root
from ziggurat.core.errors import ConfigurationError, ModelError, Timeout, ZigguratError
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.message import user
from ziggurat.messages.model import Model, ModelRequest, ModelResponse, ModelSettings
from ziggurat.models.http.dialect import DIALECTS, Dialect
from ziggurat.models.http.failures import redacted
from ziggurat.models.http.providers import base_of
from ziggurat.models.http.service import HttpModel
from ziggurat.models.resolving import resolve

SECONDS = 60.0
"""How long to wait for an answer, in seconds."""

_TOKENS = 16  # the lowest limit that every provider accepts

_CURES = {
    "authentication": "the key is wrong or has been withdrawn; make a new one and set {variable}",
    "permission": "the key is known, but may not do this: look at the account's credit and its models",
    "not_found": "look up the model's name, as in {example}, and the address",
    "invalid_request": "the provider refuses the request as it is; another model may take it",
    "content_filter": "the provider refuses what was said",
    "rate_limited": "wait, or ask for a higher limit; retry() around a model waits by itself",
    "overloaded": "try again later; retry() around a model does so by itself",
    "server": "try again later; the provider is at fault",
    "connection": "see whether it runs there, and look at network and proxy; for another address {address}",
    "timeout": "see whether it runs there, and look at network and proxy; for another address {address}",
    "malformed": "perhaps something else answers there; for another address {address}",
}


def examine_model(spec: str) -> int:
    """Send a model one small request and write the result; return 0 if it answered, else 1."""
    report = Report()
    report.title("Model")
    provider, _, name = (part.strip() for part in spec.partition(":"))
    dialect = DIALECTS.get(provider)
    try:
        model = resolve(spec)
    except ConfigurationError as error:
        if dialect is None or not name:
            raise
        report.missing(redacted(str(error)))
        return 1
    if isinstance(model, HttpModel):
        dialect = model.dialect
        report.plain(f"{dialect.name}, model {model.model}")
        report.plain(f"at {_place(dialect.base_url)}")
        report.plain(key_state(dialect))
    return _ask(model, report, dialect)


def _ask(model: Model, report: Report, dialect: Dialect | None) -> int:
    started = time.monotonic()
    try:
        response = asyncio.run(_ping(model))
    except ZigguratError as error:
        report.missing(redacted(str(error)))
        cure = _cure(error, dialect)
        if cure:
            report.plain(cure)
        return 1
    usage = response.usage
    tokens = f"; {usage.input} tokens in, {usage.output} out" if usage.input is not None else ""
    report.fine(f"reachable: {response.model or 'it'} answered in {time.monotonic() - started:.1f} s{tokens}")
    return 0


async def _ping(model: Model) -> ModelResponse:
    request = ModelRequest(Transcript.of(user("ping")), settings=ModelSettings(max_tokens=_TOKENS))
    async with root("doctor").limit(SECONDS) as ctx:
        return await model(request, ctx)


def _cure(error: ZigguratError, dialect: Dialect | None) -> str:
    """Return advice for an error whose message gives none."""
    kind = "timeout" if isinstance(error, Timeout) else error.kind if isinstance(error, ModelError) else ""
    if dialect is None or kind not in _CURES:
        return ""
    either = f"set {dialect.base_variables[0]} or " if dialect.base_variables else ""
    return _CURES[kind].format(
        variable=" or ".join(dialect.key_variables),
        example=example(dialect.name),
        address=f"{either}write {dialect.name}@https://host/v1:NAME",
    )


def _place(url: str) -> str:
    """Return a URL without possible secrets: user names, passwords and queries."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def spec_of(agent: Runnable, provider: str) -> str:
    """Return the name with which to test the agent's model of this provider, with its URL if that is unusual."""
    current: object = agent
    while current is not None and not isinstance(current, Agent):
        current = getattr(current, "inner", None)
    model: object = None if current is None else current.model
    while model is not None and not isinstance(model, HttpModel):
        model = getattr(model, "inner", None)
    if model is None or model.dialect.name != provider:
        return f"{provider}:NAME"
    try:
        usual = base_of(DIALECTS[provider], None)
    except ConfigurationError:  # the provider has no default URL
        usual = ""
    base = model.dialect.base_url
    return f"{provider}:{model.model}" if base == usual else f"{provider}@{_place(base)}:{model.model}"
