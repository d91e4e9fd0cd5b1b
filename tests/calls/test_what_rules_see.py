"""Rules, people and hooks judge the arguments that the tool receives, and a call without them gives the same result."""

import asyncio
import dataclasses
import enum
import json
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pydantic
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.json import encode

from tests.samples import amount
from ziggurat import Agent, Budget, Context, Message, Middleware, Modify, Text, Toolbox, layer, raw_tool, stack, tool
from ziggurat.agents import Approvals, Environment, PendingItem, Rule
from ziggurat.calls.hooks import MIDDLEWARE, HookChain
from ziggurat.calls.tool_call import act
from ziggurat.core import root
from ziggurat.core.context import JOURNAL, RUN_ID, Scope
from ziggurat.errors import ConfigurationError, Suspend
from ziggurat.journal import LocalJournal
from ziggurat.journal.entries import Intent
from ziggurat.messages import ModelRequest, ModelResponse, ToolCall, ToolResult
from ziggurat.tools import FunctionTool, PermissionLog
from ziggurat.tools.approval import APPROVALS

RULES = amount(300, 2_000)


class Level(enum.Enum):
    LOW = "low"
    HIGH = "high"


@dataclasses.dataclass
class Place:
    x: int
    label: str = "here"
    sure: bool = False


@dataclasses.dataclass
class Route:
    stops: list[int]
    fast: bool


class Order(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(str_strip_whitespace=True)

    amount: int = pydantic.Field(alias="Amount")
    to: str = "ann"
    urgent: bool = False


class Names(msgspec.Struct):
    owner: str
    age: int = 0

    def __post_init__(self) -> None:
        self.owner = self.owner.strip().lower()


def _dumped(value: Any) -> Any:
    return value.model_dump(by_alias=True)


def _tools(received: list[dict[str, Any]]) -> dict[str, FunctionTool]:
    def done(**values: Any) -> str:
        dumped = msgspec.to_builtins(
            values, order="deterministic", enc_hook=lambda each: each.model_dump(by_alias=True)
        )
        received.append(dumped)
        return "done"

    @tool
    def flat(count: int, ratio: float, name: str, on: bool, level: Level = Level.LOW, limit: int | None = None) -> str:
        """Flat values."""
        return done(count=count, ratio=ratio, name=name, on=on, level=level, limit=limit)

    @tool
    def nested(place: Place, route: Route | Place, tags: list[int], prices: dict[str, float], dry: bool = False) -> str:
        """Nested values."""
        tagged = {"type": type(route).__name__, **dataclasses.asdict(route)}
        return done(place=place, route=tagged, tags=tags, prices=prices, dry=dry)

    @tool
    def exact(day: date, at: datetime, price: Decimal, either: int | str, names: Names, flags: set[int]) -> str:
        """Values that JSON has in other forms."""
        return done(day=day, at=at, price=price, either=either, names=names, flags=flags)

    @tool
    def ordered(order: Order, others: list[Order] | None = None, note: str = "") -> str:
        """Models of pydantic."""
        return done(order=order, others=others, note=note)

    def take(arguments: dict[str, Any]) -> str:
        received.append(arguments)
        return "done"

    free: dict[str, Any] = {"type": "object", "additionalProperties": True}
    raw = raw_tool(take, name="raw", description="Any values.", parameters=free)
    return {each.spec.name: each for each in (flat, nested, exact, ordered, raw)}


def _values(random: Random, name: str) -> dict[str, Any]:
    """Return arguments for a tool, as plain JSON values."""
    number, fraction, truth = random.randint(-2, 3), random.choice([0.0, 1.0, 1.5, -0.25, 1e3]), random.random() < 0.5
    text = random.choice(["", "ann", "böb", " Ann ", "5", "true", "null", "a\u200bb", '{"x":1}'])
    place = {"x": number, "label": text, "sure": truth}
    amounts = {"Amount": number, "to": text, "urgent": truth}
    if name == "flat":
        values: dict[str, Any] = {"count": number, "ratio": fraction, "name": text, "on": truth}
        optional: dict[str, Any] = {"level": random.choice(["low", "high"]), "limit": random.choice([None, 0, 7])}
    elif name == "nested":
        route = random.choice([place, {"stops": [number, 2], "fast": truth}])
        values = {"place": place, "route": route, "tags": [number] * random.randint(0, 2), "prices": {text: fraction}}
        optional = {"dry": truth}
    elif name == "exact":
        at = random.choice(["2026-01-31T09:30:00Z", "2026-01-31T11:30:00+02:00", 0])
        price = random.choice(["12.50", "0", 3, 2.5])
        names = {"owner": text, "age": number}
        values = {"day": "2026-01-31", "at": at, "price": price, "either": random.choice([number, text])}
        values |= {"names": names, "flags": [number, 3, 1]}
        optional = {}
    elif name == "ordered":
        values, optional = {"order": amounts}, {"others": random.choice([None, [amounts]]), "note": text}
    else:
        values, optional = {"place": place, "on": truth, "text": text, "ratio": fraction, "list": [number, text]}, {}
    return values | {key: value for key, value in optional.items() if random.random() < 0.5}


def _written(random: Random, value: Any) -> str:
    """Return a value as JSON, in one of the forms that models write."""
    form = random.random()
    space = random.choice(["", "", " ", "\n\t"])
    if isinstance(value, dict):
        pairs = list(value.items())
        random.shuffle(pairs)
        inside = ",".join(f"{space}{_text(random, key)}:{space}{_written(random, each)}" for key, each in pairs)
        text = f"{{{inside}{space}}}"
        return json.dumps(text) if form < 0.1 else text
    if isinstance(value, list):
        if len(value) == 1 and form < 0.2:
            return _written(random, value[0])
        text = f"[{space}{','.join(_written(random, each) for each in value)}]"
        return json.dumps(text) if form < 0.1 else text
    if isinstance(value, str):
        return _text(random, value)
    if isinstance(value, bool):
        words = {True: ["true", '"true"', '"True"', "1", '"1"'], False: ["false", '"false"', '"False"', "0", '"0"']}
        return random.choice(["true" if value else "false", *words[value]])
    if value is None:
        return random.choice(["null", "null", '"null"'])
    forms = [repr(value), json.dumps(value), f'"{value}"', f"{float(value)!r}", f"{value}e0", f" {value} "]
    return random.choice(forms)


def _text(random: Random, text: str) -> str:
    if random.random() < 0.2:
        return '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"'
    return json.dumps(text, ensure_ascii=random.random() < 0.5)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        yield from _paths(each, (*path, key))


def _predicate(random: Random, received: dict[str, Any]) -> Callable[[dict[str, Any]], bool]:
    """Return a rule on one of the arguments: a comparison, a membership or a type, at any depth."""
    path, value = random.choice(list(_paths(received)))
    strange: Any = random.choice([0, 1, "0", "1", 1.5, "", "false", True, False, None, [], "ann", "low", "2026-01-31"])
    other = random.choice([value, strange])
    kind = type(other)
    tests: list[Callable[[Any], Any]] = [
        lambda found: found == other,
        lambda found: found != other,
        lambda found: found > other,
        lambda found: found <= other,
        lambda found: found in (other, "x"),
        lambda found: other in found,
        lambda found: type(found) is kind,
        lambda found: not found,
        lambda found: len(found) > 1,
        lambda found: json.dumps(found, sort_keys=True) == json.dumps(other, sort_keys=True),
    ]
    test = random.choice(tests)

    def holds(arguments: dict[str, Any]) -> bool:
        found: Any = arguments
        for key in path:
            found = found[key]
        return bool(test(found))

    return holds


def _context(rule: Rule | None, *middleware: Middleware, approver: Any = None) -> Context:
    gates = () if rule is None else (Approvals(rule, approver=approver),)
    return Context("run", scope=Scope({JOURNAL: LocalJournal(), APPROVALS: gates, MIDDLEWARE: HookChain(middleware)}))


async def _called(box: Toolbox, call: ToolCall, ctx: Context) -> ToolResult | None:
    """Return the result of a call, None if it waits for a decision, or was changed to arguments that do not fit."""
    try:
        return await act(box, call, ctx)
    except (Suspend, ConfigurationError):
        return None


def _verdict(holds: Callable[[dict[str, Any]], bool], received: dict[str, Any]) -> bool | None:
    """Return whether a rule applies to what the tool received, None if that cannot be told."""
    try:
        return holds(received)
    except Exception:  # the rule does not suit the values
        return None


class _Rewrite(Middleware):
    """Rewrites every call."""

    def __init__(self, arguments: str) -> None:
        self.arguments = arguments

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
        return ToolCall(call.id, call.name, self.arguments)


def _check(
    result: ToolResult | None, received: list[dict[str, Any]], seen: dict[str, Any], verdict: bool | None
) -> None:
    if verdict is None:
        assert result is None, "it asks"
    else:
        assert result is not None
        assert (result.error == "denied") is verdict
    assert received == ([seen] if verdict is False else [])
    received.clear()


async def _judge_calls(name: str, rules: int) -> dict[bool | None, int]:
    """Make calls under generated rules that deny; return how often each verdict came about."""
    random = Random(name)
    received: list[dict[str, Any]] = []
    box = Toolbox([_tools(received)[name]])
    counts: dict[bool | None, int] = {True: 0, False: 0, None: 0}
    for _ in range(rules):
        values = _values(random, name)
        holds = None
        for _ in range(3):
            arguments = _written(random, values)
            call = ToolCall("c", name, arguments)
            run = await _called(box, call, _context(None))
            assert run is not None
            if run.error == "invalid_arguments":
                refused = await _called(box, call, _context(Rule(name, "deny")))
                assert refused == run
                continue
            seen = received.pop()
            holds = holds or _predicate(random, seen)
            verdict = _verdict(holds, seen)
            rule = Rule(name, "deny", holds)
            _check(await _called(box, call, _context(rule)), received, seen, verdict)
            other = ToolCall("c", name, json.dumps(values))
            _check(await _called(box, other, _context(rule, _Rewrite(arguments))), received, seen, verdict)
            counts[verdict] += 1
    return counts


@pytest.mark.parametrize("name", ["flat", "nested", "exact", "ordered", "raw"])
async def test_the_verdict_on_a_call_is_the_verdict_on_what_the_tool_receives(name: str) -> None:
    counts = await _judge_calls(name, RULES // 5)
    assert min(counts.values()) > RULES // 50, counts


async def _judge_changes(name: str) -> int:
    """Let a person change calls under rules that deny; return how many changed calls were made."""
    random = Random(name)
    received: list[dict[str, Any]] = []
    box = Toolbox([_tools(received)[name]])
    changed = 0
    for _ in range(RULES // 10):
        values = _values(random, name)
        arguments = _written(random, values)
        run = await _called(box, ToolCall("c", name, arguments), _context(None))
        if run is None or run.error is not None:
            continue
        seen = received.pop()
        holds = _predicate(random, seen)
        asks = Rule(name, "ask")
        ctx = _context(asks, approver=lambda item, arguments=arguments: Modify(arguments))
        gates = (*ctx.scope[APPROVALS], Approvals(Rule(name, "deny", holds)))
        first = json.dumps(_values(random, name))
        result = await _called(box, ToolCall("c", name, first), ctx.within(APPROVALS, gates))
        if _verdict(holds, seen) is True:
            assert received == []
        elif result is not None and result.error is None:
            assert received == [seen]
            changed += 1
        received.clear()
    return changed


@pytest.mark.parametrize("name", ["flat", "nested", "exact", "ordered", "raw"])
async def test_a_change_by_a_person_is_judged_as_the_tool_will_receive_it(name: str) -> None:
    assert await _judge_changes(name) > RULES // 200


@pytest.mark.parametrize("name", ["flat", "nested", "exact", "ordered", "raw"])
async def test_the_record_holds_what_the_tool_receives(name: str) -> None:
    random = Random(name)
    received: list[dict[str, Any]] = []
    made = _tools(received)[name]
    for _ in range(amount(15, 50)):
        journal = LocalJournal()
        ctx = Context(
            "run",
            scope=Scope(
                {JOURNAL: journal, MIDDLEWARE: HookChain((_Rewrite(_written(random, _values(random, name))),))}
            ),
        )
        result = await act(Toolbox([made]), ToolCall("c", name, json.dumps(_values(random, name))), ctx)
        if result.error is not None:
            continue
        (intent,) = [entry for entry in journal.entries if isinstance(entry, Intent)]
        assert isinstance(intent.request, ToolCall)
        assert json.loads(intent.request.arguments) == received[-1]
        assert made.normalize(intent.request) is intent.request, "what is normal stays as it is"


async def test_a_rule_sees_defaults_and_not_what_the_function_ignores() -> None:
    seen: list[dict[str, Any]] = []

    def pay(to: str, amount: int = 5, note: str | None = None) -> str:
        return "paid"

    box = Toolbox([tool(pay)])
    rule = Rule("pay", "deny", when=lambda arguments: seen.append(arguments) or False)  # type: ignore[func-returns-value]
    for arguments in ('{"to": "ann"}', '{"to": "ann", "amount": null, "note": null}', '{"to": "ann", "amount": "5"}'):
        await _called(box, ToolCall("c", "pay", arguments), _context(rule))
    assert seen == [{"to": "ann", "amount": 5, "note": None}] * 3


async def test_a_default_without_a_json_form_is_left_to_the_function() -> None:
    nothing = object()

    @tool
    def find(text: str, limit: Any = nothing, most: int = None) -> str:  # type: ignore[assignment]  # noqa: RUF013
        assert limit is nothing
        assert most is None
        return text

    assert find.normalize(ToolCall("c", "find", '{"text": "a"}')).arguments == '{"most":null,"text":"a"}'
    assert (await find(ToolCall("c", "find", '{"most":null,"text":"a"}'), root())).text == "a"


class Sealed(pydantic.BaseModel):
    token: pydantic.SecretStr
    ratio: float | None = None


@dataclasses.dataclass
class Growing:
    size: int

    def __post_init__(self) -> None:
        self.size += 1


@pytest.mark.parametrize(
    ("kind", "given"),
    [(Sealed, '{"token":"abc"}'), (Sealed, '{"ratio":"Infinity","token":"abc"}'), (Growing, '{"size":1}')],
)
async def test_a_value_that_json_would_change_is_recorded_as_it_was_accepted(kind: type[Any], given: str) -> None:
    received: list[Any] = []

    def take(value: Any) -> str:
        received.append(value)
        return "taken"

    take.__annotations__["value"] = kind
    made = tool(take)
    call = ToolCall("c", "take", f'{{"value":{given}}}')
    normal = made.normalize(call)
    assert normal.arguments == call.arguments == made.normalize(normal).arguments
    for each in (call, normal):
        await _called(Toolbox([made]), each, _context(None))
    assert received[0] == received[1]


async def test_a_validator_cannot_change_what_was_approved() -> None:
    ran: list[list[int]] = []

    def empties(numbers: list[int]) -> str | None:
        numbers.clear()
        return None

    @tool(validators=[empties])
    def add(numbers: list[int]) -> str:
        ran.append(numbers)
        return "added"

    for gates in ((), (Approvals(Rule("add", "allow")),)):
        scope = Scope({JOURNAL: LocalJournal(), APPROVALS: gates})
        await act(Toolbox([add]), ToolCall("c", "add", '{"numbers": ["1", 2]}'), Context("run", scope=scope))
    assert ran == [[1, 2], [1, 2]]


def test_a_tool_that_reads_its_arguments_itself_gets_plain_json() -> None:
    from ziggurat.messages.model import SPEC, ToolSpec

    class Plain:
        def __init__(self) -> None:
            self.facts: dict[Any, Any] = {SPEC: ToolSpec("plain", "Plain.", {"type": "object"})}

        async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
            return ToolResult(call.id, call.name, call.arguments)

    box = Toolbox([Plain()])
    allow = Rule("plain", "deny", when=lambda arguments: False)
    for written, text in (('{ "b": 1.0, "a": "\u0061" }', '{"a":"a","b":1.0}'), ("", "{}")):
        result = asyncio.run(_called(box, ToolCall("c", "plain", written), _context(allow)))
        assert result is not None
        assert result.text == text
    for bad in ('{"a": 1, "a": 2}', "[1]", '{"a": 1', '{"a": NaN}'):
        result = asyncio.run(_called(box, ToolCall("c", "plain", bad), _context(allow)))
        assert result is not None
        assert result.error == "invalid_arguments"


async def test_ids_of_waiting_calls_name_the_run() -> None:
    box = Toolbox([_tools([])["raw"]])
    ids: set[str] = set()
    for run_id in ("r1", "r2"):
        with pytest.raises(Suspend) as waits:
            await act(box, ToolCall("c", "raw", "{}"), _context(Rule("raw")).within(RUN_ID, run_id))
        (item,) = waits.value.pending
        assert isinstance(item, PendingItem)
        ids.add(item.id)
    assert len(ids) == 2


Outcome = tuple[list[object], list[tuple[str, str | None]]]


class Looks(Middleware):
    """Sees every call, and changes none."""

    async def before_tool(self, call: ToolCall, ctx: Context) -> ToolCall:
        return call


@layer
async def through(call: ToolCall, ctx: Context, tool: Any) -> ToolResult:
    result: ToolResult = await tool(call, ctx)
    return result


CONCERNS: dict[str, dict[str, Any]] = {
    "hook": {"middleware": [Looks()]},
    "rule": {"approvals": Approvals("other")},
    "budget": {"budget": Budget(tool_calls=1000)},
    "store": {"store": "memory:"},
    "log": {"run": {"environment": Environment(permission_log=PermissionLog(size=10))}},
    "grants": {"run": {"grants": ["network"]}},
    "layer": {"layers": [through()]},
    "another call": {"beside": True},
}


def _outcome(texts: list[str], options: dict[str, Any]) -> Outcome:
    """Return what the function got and what the model was told, of calls with these arguments."""
    seen: list[object] = []

    @tool(permissions=[])
    async def count(number: int, text: str = "none", sure: bool = False, limit: int = 3) -> str:
        seen.append((number, text, sure, limit, *map(type, (number, text, sure, limit))))
        if number == 13:
            raise LookupError("an unlucky number")
        return f"{number} {text} {sure} {limit}"

    @tool(permissions=[])
    async def rest() -> str:
        return "rested"

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        step = sum(message.role == "assistant" for message in request.messages)
        if step == len(texts):
            return ModelResponse(Message("assistant", (Text("done"),)))
        calls = (ToolCall(f"c{step}", "count", texts[step]),)
        return ModelResponse(Message("assistant", (*calls, *beside)), "tool_calls")

    beside = (ToolCall("r", "rest", "{}"),) if options.get("beside") else ()
    settings = {key: value for key, value in options.items() if key not in ("run", "beside", "layers")}
    agent = Agent(model, tools=[stack(count, *options.get("layers", ())), rest], max_steps=100, **settings)
    run = asyncio.run(agent.run("go", **options.get("run", {})))
    assert run.output == "done"
    results = [each for message in run.messages for each in message.tool_results]
    return seen, [(each.text, each.error) for each in results if each.name == "count"]


numbers = st.integers() | st.integers(min_value=10**30, max_value=10**31)
anything = (
    st.none() | st.booleans() | numbers | st.floats() | st.text(max_size=8) | st.sampled_from(["3", "true", "-0"])
)
values = anything | st.lists(anything, max_size=2) | st.dictionaries(st.text(max_size=2), anything, max_size=1)
names = st.sampled_from(["number", "text", "sure", "limit", "other"])
objects = st.dictionaries(names, values, max_size=5).map(lambda each: encode(each).decode())
fitting = st.fixed_dictionaries(
    {"number": st.integers()}, optional={"text": st.text(), "sure": st.booleans(), "limit": st.integers()}
).map(lambda each: encode(each).decode())
odd = st.sampled_from(
    ["", "null", "[]", "{", '"{\\"number\\": 1}"', '{"number":1,"number":2}', '{"number":1e3}', '{"number":1.0}',
     '{"number":-0}', '{"number":1,"text":"\\ud800"}', '{"number":1,"text":"a\\u200bb\u200b"}', ' {"number" : 1}',
     '{"number":"13"}', '{"number":1,"sure":"yes"}', '{"number":1,"sure":1,"limit":null}', '{"number":NaN}']
)  # fmt: skip


@pytest.mark.parametrize("concern", CONCERNS)
@settings(max_examples=amount(12, 100))
@given(texts=st.lists(fitting | objects | odd, min_size=1, max_size=8))
def test_a_call_that_nothing_concerns_gives_what_it_gives_with_a(concern: str, texts: list[str]) -> None:
    assert _outcome(texts, {}) == _outcome(texts, CONCERNS[concern])


async def test_the_function_of_a_plain_call_cannot_make_another_call_in_its_place() -> None:
    @tool
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    @tool
    async def look(amount: int, ctx: Context) -> str:
        return (await pay(ToolCall("2", "pay", '{"amount":1000}'), ctx)).text

    async def model(request: ModelRequest, ctx: Context) -> ModelResponse:
        if len(request.messages) > 1:
            return ModelResponse(Message("assistant", (Text("done"),)))
        return ModelResponse(Message("assistant", (ToolCall("1", "look", '{"amount":1}'),)), "tool_calls")

    run = await Agent(model, tools=[look]).run("go")
    assert "other arguments than those that were approved" in run.messages[2].tool_results[0].text
