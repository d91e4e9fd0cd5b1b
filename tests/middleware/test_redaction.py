"""Secrets leaked by models, tools and errors reach no listener, record, log or error."""

import asyncio
import json
import logging
import random
import sys
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from pydantic import BaseModel, field_serializer

from tests.agents.support import assert_sendable, elsewhere
from tests.samples import amount, sample
from tests.stores.records import dump_of, journal_of
from ziggurat import (
    Agent,
    AgentRequest,
    AgentRun,
    Approvals,
    Approve,
    ConfigurationError,
    Context,
    Event,
    Middleware,
    ModelRequest,
    ModelResponse,
    Text,
    ToolCall,
    ToolError,
    ToolResult,
    Usage,
    stack,
    tool,
    user,
)
from ziggurat.core.codec import encode
from ziggurat.core.errors import ForeignError
from ziggurat.errors import ModelError, RunExists
from ziggurat.events import Delta, TextDelta, ThinkingDelta, ToolCallDelta, ToolDelta
from ziggurat.journal.entries import Entered, Intent, Opened, Pending, Returned, shared
from ziggurat.layers.retry import retry
from ziggurat.messages import Thinking, Transcript, assistant, stops, tool_call
from ziggurat.messages.conversation import Conversation
from ziggurat.middleware import Redaction
from ziggurat.middleware.secrets import Secrets
from ziggurat.models.scripted import Piece
from ziggurat.stores import InMemoryStore
from ziggurat.testing import ScriptedModel

LITERALS = ("correct horse battery", 'pa"ss/w\\ord', "hunter2-ünïcode", "8675309867", "multi\nline\tsecret")
PATTERNS = (r"\bACC-[0-9]{6,10}\b", r"(?i:codename: [a-z]{4,12} [a-z]{4,12})")
SECRETS = (
    *LITERALS, "ACC-12345678", "Codename: purple walrus", "sk-proj-a1B2c3D4e5F6g7H8i9J0",
    "sk-ant-api03-Zz9Yy8Xx7Ww6Vv5Uu4", "ghp_0123456789abcdefghijABCDEFGHIJ", "github_pat_11ABCDEFG0123456789_abcdef",
    "xoxb-123456789012-abcdefABCDEF", "AKIAIOSFODNN7EXAMPLE", "AIzaSyA1234567890abcdefghijklmnopqrstu",
    "hf_abcdefghijklmnopqrstuvwxyz", "glpat-abcdefghij0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.s5fL3Xk_9-aB", "Bearer 0123456789abcdefABCDEF",
    "ada.lovelace+test@mail.example.org",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7\nq+/x==\n-----END RSA PRIVATE KEY-----",
)  # fmt: skip
assert len(SECRETS) == 20


def redaction() -> Redaction:
    return Redaction(*LITERALS, patterns=PATTERNS, emails=True)


class Everything:
    """The whole output of a run, as one text."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.texts: list[str] = []

    def hear(self, event: Event) -> None:
        self.events.append(event)

    def keep(self, run: AgentRun, store: InMemoryStore) -> None:
        journal = journal_of(store, run.id)
        self.texts += [
            repr(msgspec.structs.asdict(run)),
            encode(run).decode(),
            dump_of(store, run.id).decode(),
            repr(journal.entries),
        ]
        said: dict[tuple[str, type], str] = {}
        for event in self.events:
            self.texts += [repr(event), encode(event).decode()]
            if isinstance(event, ToolDelta):
                said[event.path, ToolDelta] = said.get((event.path, ToolDelta), "") + event.text
            if isinstance(event, Delta):
                piece = event.delta
                text = piece.arguments if isinstance(piece, ToolCallDelta) else getattr(piece, "text", "")
                said[event.path, type(piece)] = said.get((event.path, type(piece)), "") + text
        self.texts += said.values()

    def holds(self, secret: str) -> list[str]:
        forms = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], repr(secret)[1:-1]}
        forms |= {json.dumps(form)[1:-1] for form in forms} | {
            json.dumps(json.dumps(form)[1:-1])[1:-1] for form in forms
        }
        return [text for text in self.texts for form in forms if form in text]


def run_leaking(secret: str, cut: int, *, streamed: bool, nested: bool, caught: Everything) -> AgentRun:
    """Run an agent whose model and tools leak a secret everywhere, streamed in two pieces."""
    text = f"so: {secret} it is"
    one, two = text[:cut], text[cut:]
    arguments = json.dumps({"what": text, "deep": [{"a": secret}]})
    middle = arguments.index("so: ") + cut

    async def pieces(what: str, deep: list[dict[str, str]]) -> AsyncIterator[str]:
        assert secret not in what
        assert secret not in str(deep)
        yield one
        yield two

    def structured() -> dict[str, object]:
        return {"key": secret, secret: [text, {"n": int(secret) if secret.isdigit() else 0}]}

    def failing() -> str:
        try:
            raise ValueError(text)
        except ValueError as cause:
            raise ToolError(f"failed with {secret}") from cause

    first: list[Piece] = [ThinkingDelta(one), ThinkingDelta(two, "proof"), TextDelta(one), TextDelta(two)]
    first += [ToolCallDelta(0, arguments[:middle], "c1", "pieces"), ToolCallDelta(0, arguments[middle:])]
    first += [ToolCallDelta(1, "{}", "c2", "structured"), ToolCallDelta(2, "{}", "c3", "failing")]
    error = ModelError(f"the key {secret} is refused", kind="invalid_request")
    error.__cause__ = KeyError(text)
    error.body = {"sent": [text]}  # type: ignore[attr-defined]
    model = ScriptedModel(first, [*first[:4], error])
    store = InMemoryStore()
    agent = Agent(model, tools=[pieces, structured, failing], name="inner", middleware=[redaction()], store=store)
    if nested:
        agent = Agent(model, tools=[pieces, structured, failing], name="inner")
        outer = ScriptedModel(tool_call("inner", input=f"take {secret}"), [one, two])
        agent = Agent(outer, tools=[agent], middleware=[redaction()], store=store, instructions=f"Use {secret}.")
    listeners = [caught.hear] if streamed else []
    run = asyncio.run(agent.run(f"My secret is {secret}.", listeners=listeners, run_id="r"))
    caught.keep(run, store)
    assert all(secret not in repr(call) for call in model.calls)
    assert_sendable(run.messages)
    return run


@pytest.mark.parametrize("secret", SECRETS, ids=range(20))
def test_no_secret_leaves_wherever_it_is_cut(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    whole: set[str] = set()
    for cut in {8, *sample(range(4, 5 + len(secret)), 2)}:
        caught = Everything()
        run = run_leaking(secret, cut, streamed=True, nested=cut % 8 == 0, caught=caught)
        caught.texts.append(caplog.text)
        assert not caught.holds(secret), cut
        assert "[REDACTED]" in repr(msgspec.structs.asdict(run))
        if cut % 8:
            whole.add(repr(list(run.messages)))
    assert len(whole) == 1, "the cut shows"
    caught = Everything()
    plain = run_leaking(secret, 6, streamed=False, nested=False, caught=caught)
    assert not caught.holds(secret)
    assert repr(list(plain.messages)) in whole
    run_leaking(secret, 6, streamed=False, nested=True, caught=caught)
    caught.texts.append(caplog.text)
    assert not caught.holds(secret)


async def test_what_is_not_secret_passes_unchanged() -> None:
    text = "A basic authentication needs a token; see task-1234 at https://example.org/a?b=c. 你好 世界"
    heard: list[str] = []
    agent = Agent(ScriptedModel(list(text)), middleware=[Redaction(*LITERALS, emails=True)])

    def hear(event: Event) -> None:
        if isinstance(event, Delta) and isinstance(event.delta, TextDelta):
            heard.append(event.delta.text)

    assert (await agent.run(text, listeners=[hear])).text == text
    assert "".join(heard) == text
    assert len(heard) > 10


async def test_a_thought_that_was_masked_loses_its_proof_and_others_keep_theirs() -> None:
    key = SECRETS[7]
    reply = assistant(Thinking("plain", "p1", None, "rs_1"), Thinking(f"hm {key} ", "p2", None, "rs_2"), "done")
    run = await Agent(ScriptedModel(reply), middleware=[redaction()]).run("go", listeners=[lambda event: None])
    thoughts = [part for part in run.messages[-1].parts if isinstance(part, Thinking)]
    assert thoughts == [Thinking("plain", "p1", None, "rs_1"), Thinking("hm [REDACTED] ", None, None, "rs_2")]


async def test_usage_and_effects_are_as_without() -> None:
    model = ScriptedModel(tool_call("add", a=1, b=2), "3", usage=Usage(input=5, output=2, requests=1))

    def add(a: int, b: int) -> int:
        return a + b

    run = await Agent(model, tools=[add], middleware=[Redaction()]).run("1+2")
    assert (run.text, run.observations, run.usage.total) == ("3", ("3",), 14)


class Key(Middleware):
    """Adds a secret to each call, as a vault would."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
        return msgspec.structs.replace(call, arguments=json.dumps({"key": SECRETS[0]}))


def vault(
    *middleware: Middleware, approve: bool = False, store: InMemoryStore | None = None
) -> tuple[Agent, list[str], InMemoryStore]:
    got: list[str] = []

    @tool(effect="once")
    def pay(key: str) -> str:
        got.append(key)
        return f"paid with {key}"

    store = store or InMemoryStore()
    agent = Agent(
        ScriptedModel(tool_call("pay", key="?"), "done"),
        tools=[pay],
        middleware=[redaction(), *middleware],
        approvals=Approvals("pay") if approve else None,
        store=store,
    )
    return agent, got, store


async def test_a_tool_gets_what_the_hooks_left_and_the_record_does_not() -> None:
    agent, got, store = vault(Key())
    run = await agent.run("pay", run_id="r")
    assert got == [SECRETS[0]]
    assert run.observations == ("paid with [REDACTED]",)
    entries = journal_of(store, "r").entries
    assert {Opened, Entered, Intent, Returned} <= {type(entry) for entry in entries}
    assert SECRETS[0] not in repr(entries)
    assert SECRETS[0].encode() not in dump_of(store, "r")


@pytest.mark.parametrize("read", [False, True])
def test_a_call_that_waits_is_made_again_by_its_hooks_when_it_is_agreed_to(read: bool) -> None:
    agent, got, store = vault(Key(), approve=True)
    caught = Everything()
    run = asyncio.run(agent.run("pay", run_id="r", listeners=[caught.hear]))
    caught.keep(run, store)
    assert any(isinstance(entry, Pending) for entry in journal_of(store, "r").entries)
    assert not caught.holds(SECRETS[0])
    if read:
        agent, got, store = vault(Key(), approve=True, store=elsewhere(store, "r"))
    again = asyncio.run(agent.resume("r", {run.pending[0].id: Approve()}, listeners=[caught.hear]))
    caught.keep(again, store)
    assert got == [SECRETS[0]]
    assert again.observations == ("paid with [REDACTED]",)
    assert not caught.holds(SECRETS[0])


def test_a_call_that_its_hooks_make_differently_is_not_run() -> None:
    class Changing(Middleware):
        def __init__(self) -> None:
            self.count = 0

        async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
            self.count += 1
            return msgspec.structs.replace(call, arguments=json.dumps({"key": f"{SECRETS[0]} {self.count}"}))

    agent, got, _ = vault(Changing(), approve=True)
    run = asyncio.run(agent.run("pay", run_id="r"))
    again = asyncio.run(agent.resume("r", {run.pending[0].id: Approve()}))
    assert got == []
    assert "not all of its arguments were kept" in again.observations[0]


def test_the_same_request_under_the_same_id_is_the_same_run_and_another_is_not() -> None:
    store = InMemoryStore()
    agent = Agent(ScriptedModel("one"), middleware=[redaction()], store=store)
    question = f"Use {SECRETS[7]}"
    asyncio.run(agent.run(question, run_id="r"))
    assert asyncio.run(agent.run(question, run_id="r")).text == "one"
    with pytest.raises(RunExists, match="another request"):
        asyncio.run(agent.run("Something else", run_id="r"))


def test_a_resumed_run_does_not_take_masked_instructions_for_new_ones() -> None:
    heard: list[Event] = []
    store = InMemoryStore()
    model = ScriptedModel(ModelError("down", kind="invalid_request"), "up")
    agent = Agent(model, instructions=f"Use {SECRETS[7]}", middleware=[redaction()], store=store)
    asyncio.run(agent.run("go", run_id="r"))
    agent = Agent(model, instructions=f"Use {SECRETS[7]}", middleware=[redaction()], store=elsewhere(store, "r"))
    assert asyncio.run(agent.resume("r", listeners=[heard.append])).text == "up"
    assert not [event for event in heard if type(event).__name__ == "Diverged"]
    assert SECRETS[7] not in str(model.last.instructions)


class Stubborn(Exception):
    """An error with a secret in a place that masking cannot change."""

    def __str__(self) -> str:
        return f"stubborn {SECRETS[7]}"


@pytest.mark.parametrize(
    "error",
    [
        ValueError(SECRETS[7]), KeyError(SECRETS[7], {"a": [SECRETS[7]]}), OSError(2, f"no {SECRETS[7]}", SECRETS[7]),
        UnicodeDecodeError("utf-8", SECRETS[7].encode(), 0, 1, SECRETS[7]), Stubborn(),
        ExceptionGroup("several", [ValueError(SECRETS[7]), Stubborn()]),
        ExceptionGroup(f"group {SECRETS[7]}", [ValueError("x")]), ModelError(SECRETS[7], kind="invalid_request"),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
async def test_an_error_that_leaves_says_nothing_of_it(error: Exception) -> None:
    error.add_note(f"note {SECRETS[7]}")
    error.__context__ = Stubborn()
    told: list[BaseException] = []

    class Listening(Middleware):
        async def on_error(self, error: BaseException, ctx: Context) -> None:
            told.append(error)

    run = await Agent(ScriptedModel(error), middleware=[Redaction(), Listening()]).run("go")
    assert isinstance(run.stop, stops.Failed)
    assert SECRETS[7] not in repr(msgspec.structs.asdict(run))
    left = told[0]
    shown = "".join(traceback.format_exception(left)) + repr(left) + str(left) + repr(left.args) + repr(vars(left))
    assert SECRETS[7] not in shown
    assert "[REDACTED]" in shown
    assert isinstance(left, (type(error), ForeignError))


def test_errors_that_lead_back_to_themselves_are_mended_once() -> None:
    inner = ValueError(SECRETS[7])
    group = ExceptionGroup("several", [inner])
    inner.__context__ = group
    masked = Redaction().masked(group)
    assert SECRETS[7] not in "".join(traceback.format_exception(masked))
    assert masked is group


@pytest.mark.parametrize("message", ["several", SECRETS[7]])
def test_an_error_that_cannot_be_changed_is_replaced_wherever_it_is_referred_to(message: str) -> None:
    def raises() -> None:
        raise Stubborn

    try:
        raises()
    except Stubborn as caught:
        stubborn = caught
    stubborn.retry_after = 3.0  # type: ignore[attr-defined]
    stubborn.add_note("a note")
    plain = LookupError("plain")
    group = ExceptionGroup(message, [plain, ExceptionGroup("inner", [stubborn])])
    stubborn.__cause__, plain.__context__ = plain, group
    masked = Redaction().masked(group)
    shown = "".join(traceback.format_exception(masked))
    assert SECRETS[7] not in shown
    assert "raises()" in shown, "where it was raised is still shown"
    assert masked.exceptions[0] is plain
    assert plain.__context__ is masked
    inner = masked.exceptions[1]
    assert isinstance(inner, ExceptionGroup)
    replaced = inner.exceptions[0]
    assert isinstance(replaced, ForeignError)
    assert (replaced.type_name, str(replaced), replaced.retry_after) == ("Stubborn", "stubborn [REDACTED]", 3.0)
    assert (replaced.__notes__, replaced.__cause__) == (["a note"], plain)


async def test_a_retry_tells_of_the_error_without_it() -> None:
    heard: list[Event] = []
    model = stack(ScriptedModel(ConnectionError(f"lost {SECRETS[7]}"), "ok"), retry(attempts=2, base=0))
    run = await Agent(model, middleware=[Redaction()]).run("go", listeners=[heard.append])
    assert run.text == "ok"
    assert "Retrying" in repr(heard)
    assert SECRETS[7] not in repr(heard)


async def test_an_error_of_a_hook_says_nothing_of_it() -> None:
    class Failing(Middleware):
        async def before_agent(self, request: AgentRequest, ctx: Context) -> None:
            raise ValueError(SECRETS[7])

    heard: list[Event] = []
    run = await Agent(ScriptedModel("x"), middleware=[Redaction(), Failing()]).run("go", listeners=[heard.append])
    assert "[REDACTED]" in repr(run.stop)
    assert SECRETS[7] not in repr(msgspec.structs.asdict(run)) + repr(heard)


async def test_prompts_may_pass_to_the_model_and_are_not_recorded() -> None:
    store = InMemoryStore()
    model = ScriptedModel("ok")
    await Agent(model, middleware=[Redaction(prompts=False)], store=store).run(SECRETS[7], run_id="r")
    assert model.last.messages[0].text == SECRETS[7]
    opened = journal_of(store, "r").entries[0]
    assert SECRETS[7] not in repr(opened)


@pytest.mark.parametrize("seed", range(amount(20, 500)))
def test_what_is_known_of_conversations_that_grow_masks_them_as_a_whole(seed: int) -> None:
    draw, known = random.Random(seed), Redaction("sesame")
    conversations = [Conversation([user("open sesame"), user(f"word {number}")]) for number in range(3)]
    for _ in range(12):
        conversation = draw.choice(conversations)
        if draw.random() < 0.2:  # another conversation that begins with the same messages
            conversations.append(conversation := Conversation(conversation.log[: draw.randrange(1, 4)]))
        conversation.log += [user(draw.choice(["sesame", "word"])) for _ in range(draw.randrange(3))]
        view = conversation.view()
        expected = [Redaction("sesame").masked(message) for message in view]
        assert list(known.masked(view)) == expected
        assert list(known.masked(AgentRequest(tuple(view))).messages) == expected
        assert known.masked(view).fingerprint() == Transcript.of(*expected).fingerprint()


def test_a_conversation_in_use_is_masked_once_however_many_others_there_are() -> None:
    searched = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal searched
        searched += event == "call" and frame.f_code is Secrets.masked.__code__

    known, conversation = Redaction("sesame"), Conversation([user(f"word {number}") for number in range(100)])
    known.masked(conversation.view())
    sys.setprofile(count)
    try:
        for number in range(1000):
            known.masked(Conversation([user(f"other {number}"), user("word")]).view())
            conversation.log.append(user("word"))
            known.masked(conversation.view())
    finally:
        sys.setprofile(None)
    assert searched <= 1000 * 3 * 2  # new messages, with a text and perhaps a name each


@pytest.mark.parametrize("word", ["sesame", "word"])
async def test_a_turn_of_a_long_session_compares_few_conversations(word: str) -> None:
    compared = 0

    def count(frame: FrameType, event: str, arg: object) -> None:
        nonlocal compared
        compared += event == "call" and frame.f_code is shared.__code__

    agent = Agent(ScriptedModel(always="fine"), middleware=[Redaction("sesame")], store=InMemoryStore())
    for turn in range(16):
        compared = 0
        sys.setprofile(count)
        try:
            await agent.run(word, session="s")
        finally:
            sys.setprofile(None)
        assert compared <= 24, turn


def test_a_user_may_mask_values_of_their_own() -> None:
    masks = Redaction("open sesame", keys=False, mask="***")
    assert masks.masked("say open sesame") == "say ***"
    assert masks.masked([user("open sesame")])[0].text == "***"
    assert "sesame" not in repr(masks)


@pytest.mark.parametrize("literal", ["", "abc"])
def test_words_that_are_too_short_are_refused(literal: str) -> None:
    with pytest.raises(ConfigurationError, match="at least 4 characters"):
        Redaction(literal)


async def test_instructions_that_a_hook_adds_are_masked_too() -> None:
    class Adding(Middleware):
        async def before_model(self, request: ModelRequest, ctx: Context) -> ModelRequest:
            return msgspec.structs.replace(request, instructions=f"Use {SECRETS[7]}")

    model = ScriptedModel("ok")
    await Agent(model, middleware=[Redaction(), Adding()]).run("go")
    assert model.last.instructions == "Use [REDACTED]"


class Careless(Middleware):
    """Adds a secret wherever it can, and stores what it receives."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    async def after_model(self, response: ModelResponse, ctx: Context) -> ModelResponse:
        self.seen.append(response)
        parts = (*response.message.parts, Text(SECRETS[7]))
        return msgspec.structs.replace(response, message=msgspec.structs.replace(response.message, parts=parts))

    async def before_tool(self, call: ToolCall, ctx: Context) -> None:
        if call.name == "other":
            raise ValueError(SECRETS[7])

    async def after_tool(self, result: ToolResult, ctx: Context) -> ToolResult:
        self.seen.append(result)
        return msgspec.structs.replace(result, content=f"{result.text} {SECRETS[7]}")

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun:
        self.seen.append(run)
        return msgspec.structs.replace(run, output=f"{run.output} {SECRETS[7]}")

    async def on_error(self, error: BaseException, ctx: Context) -> None:
        self.seen.append(error)


async def test_hooks_further_in_see_no_secret_and_add_none() -> None:
    def look() -> str:
        return SECRETS[8]

    def other() -> str:
        return "unseen"

    heard: list[Event] = []
    careless = Careless()
    model = ScriptedModel(
        [f"{SECRETS[8]}", tool_call("look", id="a"), tool_call("other", id="b"), tool_call(SECRETS[9], id="c")], "done"
    )
    agent = Agent(model, tools=[look, other], middleware=[Redaction(), careless])
    run = await agent.run("go", listeners=[heard.append])
    assert SECRETS[8] not in repr(careless.seen)
    assert SECRETS[7] not in repr([each for each in careless.seen if isinstance(each, BaseException)])
    assert "[REDACTED]" in repr([each for each in careless.seen if isinstance(each, ValueError)])
    for secret in SECRETS[7:10]:
        assert secret not in repr(msgspec.structs.asdict(run)) + repr(heard)
    assert run.output == "done[REDACTED] [REDACTED]"
    assert [result.text.count("[REDACTED]") for result in run.trace()[0].results] == [2, 2, 2]


async def test_a_redaction_of_a_nested_agent_holds_beneath_it() -> None:
    def look() -> str:
        return f"it is {SECRETS[7]}"

    store = InMemoryStore()
    caught = Everything()
    inner = Agent(
        ScriptedModel(tool_call("look"), f"so {SECRETS[7]}"), tools=[look], name="i", middleware=[Redaction()]
    )
    agent = Agent(ScriptedModel(tool_call("i", input="go"), f"own {SECRETS[8]}"), tools=[inner], store=store)
    run = await agent.run("go", run_id="r", listeners=[caught.hear])
    caught.keep(run, store)
    assert not caught.holds(SECRETS[7])
    assert caught.holds(SECRETS[8])


@pytest.mark.parametrize("scheme", ["sqlite", "file"])
async def test_no_secret_is_written_to_a_disk_and_a_resumed_run_has_none(scheme: str, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    got: list[str] = []

    @tool(effect="once", approval=True)
    def pay(key: str) -> dict[str, str]:
        got.append(key)
        return {"paid": f"{key} {SECRETS[8]}"}

    def agent() -> Agent:
        model = ScriptedModel(
            rules=[(lambda request: len(request.messages) == 1, [SECRETS[7], tool_call("pay", key="?")])],
            always=f"done {SECRETS[9]}",
        )
        address = f"{scheme}:///{place}"
        return Agent(model, tools=[pay], middleware=[redaction(), Key()], store=address, instructions=SECRETS[10])

    caught = Everything()
    run = await agent().run(f"use {SECRETS[6]}", run_id="r", listeners=[caught.hear])
    again = await agent().resume("r", {run.pending[0].id: Approve()}, listeners=[caught.hear])
    caught.texts += [repr(msgspec.structs.asdict(run)), repr(msgspec.structs.asdict(again))]
    assert again.observations == ('{"paid":"[REDACTED] [REDACTED]"}',)
    assert got == [SECRETS[0]]
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    caught.texts += [path.read_bytes().decode("latin-1") for path in files]
    caught.texts += [repr(event) for event in caught.events]
    assert any(b"REDACTED" in path.read_bytes() for path in files)
    for secret in (SECRETS[0], *SECRETS[6:11]):
        assert not caught.holds(secret)


class _Card(BaseModel):
    number: str
    kind: str = "any"

    @field_serializer("number")
    def short(self, number: str) -> str:
        return number[-4:]


async def test_the_recorded_json_of_an_output_has_no_secret() -> None:
    def agent(store: InMemoryStore) -> Agent[_Card]:
        model = ScriptedModel(tool_call("final_answer", number="12345", kind="of hunter2hunter2"))
        return Agent(model, output=_Card, middleware=[Redaction("hunter2hunter2")], store=store)

    store = InMemoryStore()
    run = await agent(store).run("go", run_id="r")
    again = await agent(elsewhere(store, "r")).resume("r")
    for each in (run, again):
        assert (each.output, each._accepted) == (
            _Card(number="12345", kind="of [REDACTED]"), {"number": "12345", "kind": "of [REDACTED]"}
        )  # fmt: skip
    assert b"hunter2" not in dump_of(store, "r")
