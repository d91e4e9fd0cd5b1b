"""Every public constructor, layer and function checks its settings: walked, and tried with values that cannot be."""

import asyncio
import importlib
import inspect
import math
import pkgutil
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, Unpack, get_args, get_origin, get_type_hints

import pytest
from msgspec import Meta, Struct

import ziggurat
from tests.wrong import wrong
from ziggurat.agents.agent import Agent
from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import CheckedStruct
from ziggurat.core.ticks import every
from ziggurat.http.client import Client
from ziggurat.http.limits import Limits
from ziggurat.knowledge.graph import KnowledgeGraph
from ziggurat.memory import open_memory
from ziggurat.messages.embedding import Embeddings, EmbedRequest
from ziggurat.messages.usage import Usage
from ziggurat.models.http.dialect import dialect_of
from ziggurat.models.scripted import ScriptedModel
from ziggurat.plans.htn import Planner
from ziggurat.plans.htn_parts import Compound
from ziggurat.plans.nodes import Task
from ziggurat.plans.trees import workflow
from ziggurat.runtime.bus import Bus
from ziggurat.stores.local import LocalLogs

MODEL = ScriptedModel(always="x")
TASK = Task("x", prompt="x")


async def echo(request: str, ctx: Context) -> str:
    return request


async def embedder(request: EmbedRequest, ctx: Context) -> Embeddings:
    return Embeddings(tuple(struct.pack("<2f", 1.0, number) for number in range(len(request.texts))), "x")


def number_of(*values: object) -> float:
    return 1.0


ARGUMENTS: dict[str, dict[str, Any]] = {
    "DiagramEdge": {"source": "a", "target": "b"},
    "DiagramNode": {"name": "a"},
    "Agent": {"model": MODEL},
    "app": {"agents": Agent(MODEL)},
    "AgentMemory": {"store": open_memory("memory:"), "owner": "ann"},
    "Approvals": {},
    "Budget": {"tokens": 1},
    "Bulkhead": {"limit": 1},
    "Cassette": {"path": "cassette.jsonl"},
    "CircuitBreaker": {"consecutive": 1},
    "EpisodicMemory": {"store": open_memory("memory:"), "owner": "ann"},
    "FactsBy": {"model": MODEL},
    "Maintenance": {"store": open_memory("memory:"), "owners": ["ann"]},
    "OutputGuardrail": {"check": number_of},
    "fail_on": {"service": echo},
    "fallback": {"first": echo},
    "hybrid": {"recency_weight": 1, "frequency_weight": 1},
    "open_stream": {"service": echo, "request": "x"},
    "stack": {"service": echo},
    "FileStore": {"path": "runs"},
    "Gate": {"hard": 9},
    "Key": {"name": "x"},
    "LongTermMemory": {"store": open_memory("memory:"), "owner": "ann"},
    "Note": {"content": "x"},
    "Output": {"kind": str},
    "PostgresStore": {"url": "postgresql://localhost/none"},
    "RateLimiter": {"requests": 1},
    "Recent": {"messages": 1},
    "Remembering": {"store": "memory:", "owner": "ann"},
    "ReplayModel": {"record": ""},
    "Rule": {"pattern": "x"},
    "Runnable": {"service": Agent(MODEL)},
    "SemanticMemory": {"store": open_memory("memory:"), "owner": "ann"},
    "SqliteStore": {"path": "runs.db"},
    "Session": {"session_id": "x", "store": LocalLogs()},
    "Trigger": {"due": number_of},
    "Trim": {"last": 1},
    "View": {"store": open_memory("memory:"), "owner": "ann"},
    "Windows": {"inner": echo},
    "WorkingMemory": {"store": open_memory("memory:"), "owner": "ann"},
    "at_fraction": {"fraction": 0.5},
    "cached": {"embedder": echo},
    "hedge": {"service": echo, "delay": 1},
    "load_shed": {"when": lambda: False},
    "over_messages": {"messages": 1},
    "over_tokens": {"tokens": 1},
    "over_turns": {"turns": 1},
    "raw_tool": {"function": echo, "name": "x", "description": "", "parameters": {}},
    "recency_decay": {"rate": 1},
    "replay_record": {"agent": Agent(MODEL), "record": ""},
    "until_tool_called": {},
    "Checkpoints": {"agent": Agent(MODEL)},
    "FunctionModel": {"function": echo},
    "ask": {"question": "Which?"},
    "event": {"name": "paid"},
    "due_ticks": {
        "recurrence": every(hours=1),
        "after": datetime(2026, 1, 1, tzinfo=UTC),
        "until": datetime(2026, 1, 2, tzinfo=UTC),
    },
    "schedule": {"runnable": Agent(MODEL), "recurrence": every(hours=1)},
    "send": {"run_id": "x", "name": "paid", "store": LocalLogs()},
    "calibrate": {"embedder": embedder},
    "GraphStore": {"path": "graph.db"},
    "Role": {"name": "x"},
    "Subscription": {"bus": Bus(), "name": "x", "role": None},
    "Specific": {"name": "x"},
    "Handoff": {"target": "x"},
    "HandoffTool": {"target": "x", "name": "x", "description": "x"},
    "HttpEmbedder": {"model": "x", "dialect": dialect_of("ollama"), "transport": Client("http://127.0.0.1:11434")},
    "JsonLines": {"target": "events.jsonl"},
    "UserClient": {"client": None, "url": "http://127.0.0.1", "name": "x", "limits": Limits()},
    "SchemaValidator": {"schema": {}},
    "accept_loss": {"store": LocalLogs(), "log": "x"},
    "apply_violation": {"messages": [], "damage": "RepeatedUser"},
    "audit": {"store": open_memory("memory:")},
    "compression": {"store": open_memory("memory:")},
    "connect": {"url": "sqlite:///runs.db"},
    "consolidation": {"store": open_memory("memory:")},
    "cost": {"usage": Usage(), "model": "x"},
    "dot": {"entities": (), "relations": ()},
    "export_memories": {"store": open_memory("memory:")},
    "find_same": {"records": []},
    "graph_tools": {"graph": KnowledgeGraph()},
    "http_embedder": {"spec": "ollama:x"},
    "import_memories": {"store": open_memory("memory:"), "lines": []},
    "mermaid": {"entities": (), "relations": ()},
    "model_facts": {"name": "x", "window": None, "output_modes": ["tool"]},
    "networkx_graph": {"entities": (), "relations": ()},
    "reembed": {"store": open_memory("memory:"), "owner": "ann", "embedder": echo, "ctx": root()},
    "run_check": {"check": number_of, "factory": lambda clock: LocalLogs()},
    "parallel": {"leader": Agent(MODEL)},
    "star": {"leader": Agent(MODEL)},
    "background": {"leader": Agent(MODEL)},
    "ledger_team": {"manager": Agent(MODEL)},
    "Subtask": {"text": "x"},
    "Task": {"name": "x"},
    "Sequence": {"nodes": []},
    "Branch": {"condition": "x:y", "if_true": TASK},
    "Parallel": {"nodes": []},
    "Map": {"name": "x", "over": "y", "node": TASK},
    "Loop": {"node": TASK, "max_rounds": 1},
    "Primitive": {"tool": "x"},
    "Compound": {"name": "x"},
    "Method": {"task": "x", "subtasks": []},
    "Planner": {"methods": []},
    "plan_execute": {"model": MODEL},
    "draw_plan": {"plan": workflow(Task("x", prompt="x"), agent=Agent(MODEL))},
    "htn_flow": {"planner": Planner([]), "goal": Compound("x")},
    "asked": {"agent": Agent(MODEL), "question": "x"},
    "contains": {"condition": "x:y", "variables": {}},
    "when": {"variable": "x", "kind": int, "test": bool},
    "tool_call": {"name": "x"},
    "Fact": {"name": "x", "default": None},
}
"""What they need besides the setting that is tried."""


class Case(NamedTuple):
    """One declared setting of a public name."""

    title: str
    make: Callable[..., Any]
    setting: str
    annotation: Any
    required: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.title}({self.setting})"

    def try_with(self, value: object) -> None:
        """Call it with one value for the setting."""
        arguments = {**self.required, self.setting: value}
        parameters = inspect.signature(self.make).parameters
        tries_rest = parameters[self.setting].kind is inspect.Parameter.VAR_POSITIONAL
        positional = [
            arguments.pop(name)
            for name, each in parameters.items()
            if name in arguments
            and (each.kind is each.POSITIONAL_ONLY or (tries_rest and each.kind < each.KEYWORD_ONLY))
        ]
        made = self.make(*positional, **arguments)
        if inspect.iscoroutine(made):
            asyncio.run(made)


NO_SETTINGS = {
    "AgentLoop": "made by an Agent, which checks",
    "AttachedRun": "made by Runnable.attach(), which checks",
    "Conversation": "made by the loop of an agent, with a sentence of its own",
    "Engine": "made by local(), which checks",
    "EventStream": "made by open_stream(), which checks",
    "Expected": "made by expect()",
    "Flow": "made by flow(), which checks",
    "Schedule": "made by schedule(), which checks",
    "StateGraph": "made by Graph.build(), which checks",
    "Step": "made by step(), which checks",
    "append": "called with the state of a graph",
    "merge": "called with the state of a graph",
    "question_of": "called with the calls of questions",
    "FailingOn": "made by fail_on(), which checks",
    "LocalJournal": "made when a run is opened",
    "ParsedAnswer": "made of what was read from an answer",
    "ReactParser": "a part of a model",
    "Reader": "a part of a model",
    "Responder": "made by expect()",
    "RunHandle": "made by Runnable.start(), which checks",
    "ServedApp": "made by app(), which checks",
    "Worker": "made by Runnable.worker(), which checks",
    "SessionLease": "made by a Session",
    "Steering": "made by the loop of an agent",
    "StoreUnderTest": "made by run_check(), which checks",
    "TemplatedModel": "made by local(), which checks",
    "Transcript": "made of a conversation at each step",
    "assistant": "makes a message, with sentences of its own",
    "calculator": "a tool, whose arguments are checked when a model calls it",
    "echo": "a tool, whose arguments are checked when a model calls it",
    "engine_for": "called by local(), which checks",
    "entity_density": "called with turns",
    "estimate_tokens": "called with texts",
    "everything_said": "called with runs",
    "expected_tokens": "called by rate limits with requests",
    "fact": "called with services at each call",
    "filter_by_type": "called with items",
    "frequency": "called with memories",
    "from_wire": "a part of a model",
    "importance": "called with memories",
    "is_transient": "called with errors",
    "items_to_messages": "called with the items of a session",
    "journal_of": "called with the context of a run",
    "messages_to_items": "called with each message of a session",
    "name_of": "called with services at each call",
    "natural_end": "called with responses",
    "oldest": "called with memories",
    "progress_bar": "called with what was done",
    "require_real_calls_allowed": "called by models before each call",
    "similarity": "called with memories",
    "status_of": "called with stops",
    "system": "makes a message, with sentences of its own",
    "timestamp": "a tool, which is given the context of its call",
    "to_messages": "called with items",
    "to_wire": "a part of a model",
    "tool_message": "called with the result of each tool call",
    "units": "called with messages",
    "used_tokens": "called by rate limits with outcomes",
    "user": "makes a message, with sentences of its own",
    "validate": "called with messages",
    "validate_all": "called with messages",
}
"""Public names that the library calls itself, and why what they are called with needs no check."""

ANYTHING = {
    "Agent(output)": "any type, which is refused if it has no schema",
    "AgentTool(input_type)": "any type or function, which is refused if it has no schema",
    "Fact(default)": "a value of the user's types",
    "Output(kind)": "any type, which is refused if it has no schema",
    "UserClient(client)": "refused with a sentence that names the class of clients",
    "ask(answer)": "any type, which is refused if it has no schema",
    "ask(default)": "a value of the type of the answer",
    "event(value)": "any type, which is refused if it has no schema",
    "event(default)": "a value of the type of the event",
    "schedule(input)": "a value of the flow's type",
    "workflow(input)": "any type, which is refused if it has no schema",
    "Task(prompt)": "text, or data for a flow, which refuses what does not fit",
    "send(value)": "a value of the user's types",
    "gather(parts)": "refused with a sentence that says what a part is",
    "expect(request)": "what is expected is of the user's types",
    "expect(response)": "what is expected is of the user's types",
    "http_embedder(client)": "refused with a sentence that names the class of clients",
    "layer(body)": "refused with a sentence on the form of layers",
    "open_stream(request)": "a request of the user's types",
}
"""Settings that may be anything, and why."""


def public() -> dict[str, Any]:
    """Return what the package and its rooms show, by name."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(ziggurat.__path__, "ziggurat."):
        depth = module.name.count(".")
        if depth == 1 or (depth == 2 and module.ispkg):
            room = importlib.import_module(module.name) if not module.name.endswith("__main__") else None
            found |= {name: getattr(room, name) for name in getattr(room, "__all__", ())}
    return found | {name: getattr(ziggurat, name) for name in ziggurat.__all__}


def has_settings(thing: Any) -> bool:
    """Return whether a public name is made, or called, with settings: no protocol, error, record or fact."""
    if inspect.isfunction(thing):
        return True
    if not isinstance(thing, type) or getattr(thing, "_is_protocol", False):
        return False
    if issubclass(thing, (BaseException, dict)):  # typed dictionaries are checked where they are unpacked
        return False
    # other structs hold what happened or what is said, and are made in millions
    return not issubclass(thing, Struct) or issubclass(thing, CheckedStruct)


def annotations_of(thing: Any) -> dict[str, Any]:
    try:
        if isinstance(thing, type) and not issubclass(thing, Struct):
            return get_type_hints(thing.__init__, include_extras=True)
        return get_type_hints(inspect.unwrap(thing), include_extras=True)
    except NameError:
        return {}


def cases() -> Iterator[Case]:
    for title, thing in sorted(public().items()):
        if not has_settings(thing) or title in NO_SETTINGS:
            continue
        types = annotations_of(thing)
        required = ARGUMENTS.get(title, {})
        for name, each in inspect.signature(thing).parameters.items():
            if each.kind is each.VAR_KEYWORD or name not in types:
                continue
            others = {other: value for other, value in required.items() if other != name}
            yield Case(title, thing, name, types[name], others)


POOL: tuple[Any, ...] = (
    True,
    -1,
    0,
    1,
    2,
    0.5,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    "",
    "x",
    b"x",
    None,
    [],
    {},
    object(),
    10**400,
)
UNKNOWN = None


def fits(annotation: Any, value: object, meta: tuple[Meta, ...] = ()) -> bool | None:
    """Return whether an annotation allows a value, from the words of `typing` alone; None if they do not say it."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return fits(args[0], value, (*meta, *(each for each in args[1:] if isinstance(each, Meta))))
    if origin in (Union, UnionType):
        each = [fits(one, value, meta) for one in args]
        return True if True in each else UNKNOWN if UNKNOWN in each else False
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in args)
    if annotation in (None, NoneType):
        return value is None
    if annotation is bool:
        return isinstance(value, bool)
    if annotation in (int, float, Decimal):
        return _is_number(annotation, value) and all(_is_within(wrong(value), one) for one in meta)
    if annotation is str:
        if any(one.pattern is not None for one in meta):
            return UNKNOWN if isinstance(value, str) else False
        return isinstance(value, str) and (bool(value.strip()) or not any(one.min_length for one in meta))
    return _fits_class(annotation if origin is None else origin, value)


def _fits_class(kind: Any, value: object) -> bool | None:
    if kind is Callable or "__call__" in vars(kind if isinstance(kind, type) else object):
        return UNKNOWN if callable(value) else False
    if kind in (Any, object, type) or not isinstance(kind, type):
        return UNKNOWN
    if getattr(kind, "_is_protocol", False):
        return False  # no value of the pool has the methods of one
    if isinstance(value, str) and kind is not str and issubclass(str, kind):
        return False  # one text is no list of texts
    return UNKNOWN if isinstance(value, kind) else False


def _is_number(annotation: type, value: object) -> bool:
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if annotation is float else annotation)


def _is_within(value: float, meta: Meta) -> bool:
    endless = bool((meta.extra or {}).get("infinite"))
    if isinstance(value, float) and (math.isnan(value) or (math.isinf(value) and not endless)):
        return False
    return (
        (meta.ge is None or value >= meta.ge)
        and (meta.gt is None or value > meta.gt)
        and (meta.le is None or value <= meta.le)
        and (meta.lt is None or value < meta.lt)
    )


CASES = list(cases())
WRONG = {
    str(case): values for case in CASES if (values := [each for each in POOL if fits(case.annotation, each) is False])
}


def test_the_walk_finds_what_users_make() -> None:
    assert len(CASES) > 400
    assert len(KEYWORDS) > 250
    assert {"Agent(timeout)", "retry(attempts)", "Budget(tokens)", "tool(effect)", "Toolbox(join)"} <= set(WRONG)
    assert set(NO_SETTINGS) <= set(public())


def test_every_setting_says_what_it_may_be_or_is_listed() -> None:
    assert {str(case) for case in CASES} - set(WRONG) == set(ANYTHING)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) in WRONG], ids=str)
def test_what_does_not_fit_is_refused_by_name_before_anything_is_done(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for value in WRONG[str(case)]:
        with pytest.raises((ConfigurationError, TypeError)) as told:
            case.try_with(value)
        assert case.setting in str(told.value), value
    assert list(tmp_path.iterdir()) == []


def metas_in(annotation: Any) -> Iterator[Meta]:
    for each in get_args(annotation) if get_origin(annotation) in (Annotated, Union, UnionType) else ():
        if isinstance(each, Meta):
            yield each
        else:
            yield from metas_in(each)


def on_the_bound(annotation: Any) -> list[object]:
    """Return the numbers on the bounds of an annotation that are within them."""
    bounds = [
        each for meta in metas_in(annotation) for each in (meta.ge, meta.gt, meta.le, meta.lt) if each is not None
    ]
    near = [*bounds, *(float(each) for each in bounds)]
    near += [math.nextafter(each, way) for each in bounds for way in (-math.inf, math.inf)]
    return [each for each in near if fits(annotation, each)]


BOUNDED = [case for case in CASES if on_the_bound(case.annotation)]


@pytest.mark.parametrize("case", BOUNDED, ids=str)
def test_a_number_on_the_bound_is_allowed(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for value in on_the_bound(case.annotation):
        said = ""
        try:
            case.try_with(value)
        except ConfigurationError as error:  # it may not go together with other settings
            said = str(error)
        assert f"({case.setting}=...) is " not in said


def keywords() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield the keywords, long enough to be recognised, of all public names that check their settings."""
    for title, thing in sorted(public().items()):
        if not has_settings(thing) or title in NO_SETTINGS:
            continue
        parameters = inspect.signature(thing).parameters.values()
        function = thing.__init__ if isinstance(thing, type) and not issubclass(thing, Struct) else thing
        if inspect.isfunction(function) and not {"__wrapped__", "__signature__"} & set(vars(function)):
            continue  # neither checked nor a layer
        others = [each.annotation for each in parameters if each.kind is each.VAR_KEYWORD]
        if any(get_origin(each) is not Unpack for each in others):
            continue
        named = [each.name for each in parameters if each.kind in (each.KEYWORD_ONLY, each.POSITIONAL_OR_KEYWORD)]
        for name in (*named, *(name for each in others for name in get_args(each)[0].__annotations__)):
            if len(name) >= 5:
                yield title, thing, name


KEYWORDS = list(keywords())


@pytest.mark.parametrize(("make", "name"), [each[1:] for each in KEYWORDS], ids=[f"{a}({b})" for a, _, b in KEYWORDS])
def test_a_misspelt_keyword_names_the_right_one(make: Callable[..., Any], name: str) -> None:
    misspelt = name[:-2] + name[-1]
    with pytest.raises((TypeError, ConfigurationError), match=f"'{misspelt}'|unknown: {misspelt}") as raised:
        made = make(**{misspelt: 1})
        if inspect.iscoroutine(made):
            asyncio.run(made)
    assert re.search(rf"did you mean '|takes the keywords .*\b{name}\b", str(raised.value))
