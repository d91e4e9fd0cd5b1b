"""FunctionTool: a function becomes a tool, without state between calls."""

import asyncio
import dataclasses
import re
from collections.abc import AsyncIterator
from typing import Any

import pydantic
import pytest

from tests.wrong import wrong
from ziggurat import (
    Agent,
    Callbacks,
    ConfigurationError,
    Context,
    Event,
    Image,
    Key,
    Middleware,
    Toolbox,
    ToolCall,
    ToolError,
    raw_tool,
    tool,
    user,
)
from ziggurat.calls.tool_call import act
from ziggurat.core import CLOCK
from ziggurat.core.context import JOURNAL, Scope
from ziggurat.core.service import NAME, fact
from ziggurat.errors import InvalidArguments
from ziggurat.events import ToolDelta
from ziggurat.journal import LocalJournal
from ziggurat.messages import tool_call
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.model import NORMALIZE, SPEC
from ziggurat.testing import HandClock, ScriptedModel, assert_no_leaks
from ziggurat.tools import FunctionTool
from ziggurat.tools.results import MAX_RESULT

DATA: Key[dict[str, int]] = Key("data")


def _ctx() -> Context:
    return Context("run", scope=Scope({JOURNAL: LocalJournal(), CLOCK: HandClock(auto=True)}))


def _call(made: FunctionTool, at: Context | None = None, **arguments: Any) -> str:
    async def go() -> str:
        return (await made(tool_call(made.spec.name, **arguments), at or _ctx())).text

    return asyncio.run(go())


@tool
async def add(a: int, b: int = 1) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


def test_it_states_what_it_is() -> None:
    assert fact(add, NAME) == "add"
    assert fact(add, SPEC) is add.spec
    assert fact(add, NORMALIZE) is not None
    assert (add.spec.name, add.spec.description) == ("add", "Add two numbers.")
    assert (add.spec.effect, add.spec.permissions) == ("repeatable", ())
    assert (add.spec.approval, add.spec.timeout) == (False, None)
    assert repr(add) == "tool('add')"


def test_it_is_called_with_what_the_model_wrote() -> None:
    assert _call(add, a=2) == "3"
    assert _call(add, a=2, b=5) == "7"
    with pytest.raises(InvalidArguments, match="a: missing"):
        _call(add)
    assert asyncio.run(add.function(1, 2)) == 3, "the function itself is as it was"


def test_a_plain_function_runs_in_a_thread_and_a_generator_is_joined() -> None:
    import threading

    @tool
    def where() -> bool:
        """Return whether this is another thread."""
        return threading.current_thread() is not threading.main_thread()

    @tool
    async def tell(words: list[str]) -> Any:
        for word in words:
            yield word
        yield {"n": len(words)}

    heard: list[Event] = []
    assert _call(where) == "true"
    assert _call(tell, _ctx().heard_by(heard.append), words=["a", "b"]) == 'ab{"n":2}'
    assert [event.text for event in heard if isinstance(event, ToolDelta)] == ["a", "b", '{"n":2}']


@pytest.mark.parametrize("piece", ["x" * 1000, "x" * (MAX_RESULT * 5), ["x" * 1000]])
async def test_an_endless_stream_is_cut_and_closed(piece: object) -> None:
    asked = 0
    closed: list[bool] = []

    @tool
    async def endless() -> Any:
        nonlocal asked
        try:
            while True:
                asked += 1
                yield piece
        finally:
            closed.append(True)

    async with assert_no_leaks():
        text = (await endless(ToolCall("c", "endless"), _ctx())).text
        assert closed == [True], "closed at once, not when it is collected"
    assert len(text) <= MAX_RESULT
    assert text.endswith("[cut: the rest was not asked for]")
    assert asked <= 201


@pytest.mark.parametrize("made", ["ring", "object"])
def test_a_piece_that_cannot_be_shown_ends_the_stream_with_an_error(made: str) -> None:
    value: Any = object()
    if made == "ring":
        value = []
        value.append(value)

    @tool
    async def tells() -> Any:
        yield value

    with pytest.raises(ToolError):
        _call(tells)


def test_the_context_is_given_to_who_asks_for_it_and_hidden_from_the_model() -> None:
    @tool
    async def look(key: str, ctx: Context) -> int:
        return ctx.scope[DATA][key]

    assert list(look.spec.parameters["properties"]) == ["key"]
    ctx = _ctx().within(DATA, {"a": 1})
    assert _call(look, ctx, key="a") == "1"
    with pytest.raises(InvalidArguments, match="ctx"):
        _call(look, ctx, key="a", ctx={"path": "forged"})


def test_validators_are_asked_and_answered_for() -> None:
    def is_small(a: int, b: int = 0) -> str | None:
        return "a: must be below 10" if a >= 10 else None

    @tool(validators=[is_small])
    async def plus(a: int, b: int = 0) -> int:
        return a + b

    assert _call(plus, a=1) == "1"
    with pytest.raises(InvalidArguments, match="a: must be below 10"):
        _call(plus, a=10)


@pytest.mark.parametrize(("wrong", "told"), [(True, "must return what is wrong .* it returned a bool"), (5, "a int")])
def test_a_validator_that_says_neither_text_nor_none_is_told_of(wrong: Any, told: str) -> None:
    @tool(validators=[lambda **_: wrong])
    async def plus(a: int) -> int:
        return a

    with pytest.raises(ToolError, match=told):
        _call(plus, a=1)


@dataclasses.dataclass
class Leaving:
    code: int

    def __post_init__(self) -> None:
        raise SystemExit(self.code)


class Refusing(pydantic.BaseModel):
    code: int

    @pydantic.field_validator("code")
    @classmethod
    def leave(cls, code: int) -> int:
        raise SystemExit(code)


def _leave(code: object) -> str | None:
    raise SystemExit(3)


async def _by_type(code: Leaving) -> None: ...
async def _by_type_laxly(code: Leaving, number: int) -> None: ...
async def _by_model(code: Refusing) -> None: ...
async def _by_validator(code: dict[str, int]) -> None: ...


@pytest.mark.parametrize(
    ("function", "given"),
    [(_by_type, {}), (_by_type_laxly, {"number": "not a number"}), (_by_model, {}), (_by_validator, {})],
)
def test_what_reads_arguments_cannot_end_the_program(function: Any, given: dict[str, Any]) -> None:
    made = tool(validators=[_leave] if function is _by_validator else [])(function)
    with pytest.raises(ToolError, match="SystemExit"):
        _call(made, code={"code": 3}, **given)


def test_declarations_are_kept() -> None:
    @tool(name="send", description="Send.", effect="once", permissions=["network"], approval=True, timeout=3)
    async def whatever(text: str) -> str:
        """Not this."""
        return text

    spec = whatever.spec
    assert (spec.name, spec.description, spec.effect) == ("send", "Send.", "once")
    assert (spec.permissions, spec.approval, spec.timeout) == (("network",), True, 3)


@pytest.mark.parametrize("name", ["has space", "a" * 65, "semi;colon", "slash/ed"])
def test_a_name_that_models_do_not_take_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is not a name for a tool|cannot be a tool's name"):
        tool(name=name)(lambda: "x")


def test_wrong_declarations_are_refused() -> None:
    async def nothing() -> str:
        return ""

    with pytest.raises(ConfigurationError, match="timeout"):
        tool(timeout=0)(nothing)
    with pytest.raises(ConfigurationError, match="'yes'"):
        tool(approval="yes")(nothing)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="raw_tool"):
        raw_tool(3, name="three", description="", parameters={})  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is a tool already"):
        tool(tool(nothing))
    with pytest.raises(ConfigurationError, match=r"name=.*; got 'search'"):
        tool(wrong("search"))


@pytest.mark.parametrize(("args", "named"), [((), {}), ((1,), {}), ((1, 2), {}), ((), {"a": 1}), ((1,), {"b": 2})])
def test_a_tool_that_is_called_like_its_function_is_refused(args: tuple[int, ...], named: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"pass add itself.*tools=\[add\].*add\.function\("):
        wrong(add)(*args, **named)


def test_a_raw_tool_takes_a_mapping() -> None:
    schema = {
        "type": "object",
        "properties": {"q": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["q"],
        "additionalProperties": False,
    }

    async def search(arguments: dict[str, Any], ctx: Context) -> str:
        return f"{arguments['q']} at {ctx.path}"

    made = raw_tool(search, name="search", description="Search.", parameters=schema)
    assert made.spec.parameters == schema
    assert _call(made, q="x") == "x at run"
    for given, why in (({}, "q: missing"), ({"q": 1}, "q: expected a string"), ({"q": "x", "z": 1}, "z: unknown")):
        with pytest.raises(InvalidArguments, match=why):
            _call(made, **given)
    with pytest.raises(InvalidArguments, match="n: expected an integer"):
        _call(made, q="x", n=True)
    with pytest.raises(ConfigurationError, match="type 'object'"):
        raw_tool(search, name="search", description="", parameters={"type": "string"})


def test_a_raw_tool_may_be_a_plain_function_or_a_generator() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}

    def plain(arguments: dict[str, Any]) -> str:
        return "plain"

    async def telling(arguments: dict[str, Any]) -> Any:
        yield "te"
        yield "ll"

    assert _call(raw_tool(plain, name="plain", description="", parameters=schema)) == "plain"
    assert _call(raw_tool(telling, name="telling", description="", parameters=schema)) == "tell"
    for wrapper in (lambda *args, **more: plain(*args[:1], **more), lambda *args: plain(*args)):
        assert _call(raw_tool(wrapper, name="wrapper", description="", parameters=schema)) == "plain"


@pytest.mark.parametrize(
    "arguments",
    ['{"q": NaN}', "[1]", '{"q": "\ud800"}', "{" * 100_000, '{"q": ' + "[" * 100_000, '"text"', "nul"],
    ids=["nan", "list", "surrogate", "braces", "deep", "text", "broken"],
)
async def test_arguments_of_a_raw_tool_that_cannot_be_read_are_its_models_fault(arguments: str) -> None:
    async def search(arguments: dict[str, Any]) -> str:
        return "never"

    made = raw_tool(search, name="search", description="", parameters={"type": "object", "properties": {}})
    result = await act(Toolbox([made]), ToolCall("c", "search", arguments), _ctx())
    assert result.error == "invalid_arguments"


async def test_parts_cannot_be_told_piece_by_piece() -> None:
    @tool
    async def paint() -> AsyncIterator[Any]:
        """Paint."""
        yield "here it comes"
        yield Image(b"x")

    result = await act(Toolbox([paint]), ToolCall("c", "paint"), _ctx())
    assert result.error == "permanent"
    assert "paint yielded parts" in result.text


async def test_a_tool_that_mutates_its_arguments_changes_nothing_else() -> None:
    @tool
    async def vandal(items: list[int], options: dict[str, list[int]] | None = None, more: Any = None) -> str:
        """Change everything it is given."""
        items.append(666)
        if options is not None:
            options["x"].append(666)
            options["new"] = []
        return str(len(items))

    raw = raw_tool(
        lambda arguments: arguments.setdefault("items", []).append(666) or str(len(arguments["items"])),
        name="raw",
        description="",
        parameters={"type": "object", "properties": {"items": {"type": "array"}}},
    )
    for made in (vandal, raw):
        call = ToolCall("c", made.spec.name, '{"items": [1, 2]}')
        conversation = Transcript.of(user("go"))
        before = (call.fingerprint(), hash(call), call.arguments, conversation.fingerprint(), repr(made.spec))

        async def twice(made: FunctionTool = made, call: ToolCall = call) -> list[str]:
            box = Toolbox([made])
            return [(await act(box, call, _ctx())).text for _ in range(2)]

        assert await twice() == ["3", "3"]
        assert (call.fingerprint(), hash(call), call.arguments, conversation.fingerprint(), repr(made.spec)) == before


def test_a_default_that_a_tool_mutates_stays_out_of_its_schema() -> None:
    @tool
    async def collect(item: int, into: list[int] = []) -> int:  # noqa: B006 - the mistake in question
        """Collect."""
        into.append(item)
        return len(into)

    before = repr(collect.spec)
    _call(collect, item=1)
    _call(collect, item=2)
    assert repr(collect.spec) == before


class _Login(pydantic.BaseModel):
    password: pydantic.SecretStr


_DEFAULTS: list[tuple[Any, Any]] = [
    (pydantic.SecretStr, pydantic.SecretStr("key")),
    (_Login, _Login(password=pydantic.SecretStr("key"))),
    (list[pydantic.SecretStr], [pydantic.SecretStr("key")]),
    (Any, dataclasses.make_dataclass("Point", ["x"])(1)),
]


@pytest.mark.parametrize(("kind", "default"), _DEFAULTS, ids=str)
async def test_a_default_that_json_cannot_give_back_reaches_the_function_as_it_is(kind: Any, default: Any) -> None:
    received: list[object] = []

    def log_in(user: str, key: Any = default) -> None:
        received.append(key)

    log_in.__annotations__["key"] = kind
    await Agent(ScriptedModel(tool_call("log_in", user="u"), "done"), tools=[log_in]).run("go")
    assert received == [default]


def test_a_tool_cannot_write_upon_its_context_or_the_call() -> None:
    failed: list[str] = []

    @tool
    async def vandal(ctx: Context) -> str:
        """Change the context."""
        for name in ("path", "deadline", "scope", "emit"):
            try:
                setattr(ctx, name, "x")
            except AttributeError:
                failed.append(name)
        try:
            ctx.scope["x"] = 1
        except TypeError:
            failed.append("item")
        return ctx.path

    assert _call(vandal) == "run"
    assert failed == ["path", "deadline", "scope", "emit", "item"]
    with pytest.raises(AttributeError):
        ToolCall("a", "b").arguments = "{}"  # type: ignore[misc]


def test_what_a_tool_returned_cannot_be_changed_afterwards() -> None:
    kept: list[int] = [1]

    @tool
    async def share() -> list[int]:
        """Share."""
        return kept

    assert _call(share) == "[1]"
    result = asyncio.run(share(ToolCall("c", "share"), _ctx()))
    kept.append(2)
    assert result.text == "[1]"


async def test_hooks_upon_pieces_change_what_is_told_and_what_is_kept() -> None:
    class Shout(Middleware):
        async def on_tool_delta(self, text: str, ctx: Context) -> str | None:
            return text.upper()

    @tool
    async def count() -> AsyncIterator[str]:
        """Count."""
        yield "one "
        yield "two"

    heard: list[str] = []
    model = ScriptedModel(tool_call("count"), "done")
    agent = Agent(model, tools=[count], middleware=[Shout()])
    listener = Callbacks(on_event=lambda event: heard.append(event.text) if isinstance(event, ToolDelta) else None)
    run = await agent.run("go", listeners=[listener])
    assert heard == ["ONE ", "TWO"]
    assert run.observations == ("ONE TWO",)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"effect": "Once"}, "'none', 'repeatable' or 'once'; got 'Once'"),
        ({"permissions": "network"}, r"such as \['network'\]"),
        ({"timeout": "5"}, "got '5'"),
    ],
)
def test_declarations_that_make_no_sense_are_refused(given: dict[str, Any], told: str) -> None:
    async def pay() -> str:
        return ""

    with pytest.raises(ConfigurationError, match=told):
        tool(**given)(pay)


async def test_a_method_is_a_tool_with_its_instance() -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @tool(approval=True, timeout=3)
        async def price(self, item: str, ctx: Context) -> str:
            """Price.

            Args:
                item: What.
            """
            return f"{self.name} {item} {ctx.path}"

        @tool
        def find(self, item: str) -> str:
            return f"{self.name} has {item}"

        async def bare(self, item: str) -> str:
            return item

        made = tool(taking)

    price = Shop("ur").price
    assert (price.spec.approval, price.spec.timeout, price.spec.description) == (True, 3, "Price.")
    assert price.spec.parameters["properties"] == {"item": {"type": "string", "description": "What."}}
    model = ScriptedModel(tool_call("find", item="tea"), "done")
    run = await Agent(model, tools=[Shop("ur").find, tool(Shop("ur").bare), Shop("ur").made]).run("go")
    assert run.observations == ("ur has tea",)
    assert list(tool(Shop("ur").bare).spec.parameters["properties"]) == ["item"]
    for unbound in (Shop.find, tool(Shop.bare)):
        with pytest.raises(ConfigurationError, match="a method: give that of an instance"):
            Toolbox([unbound])


def taking(item: str) -> str:
    return item


class Shop:
    """No tool, although it can be called."""


async def _go(where: dict[str, Any]) -> str:
    """Go."""
    return ""


class ByName:
    """Takes arguments by their names only."""

    def __init__(self, **arguments: Any) -> None: ...


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"name": 3}, r"tool\(name=...\) is a text or None; got 3"),
        ({"description": 3}, r"description=...\) is a text or None; got 3"),
        ({"permissions": 3}, r"permissions=...\) is a list, each item a text, such as \['network'\], or None; got 3"),
        ({"permissions": [3]}, "each item a text, .*; got 3"),
        ({"permissions": "network"}, r"; got 'network', write \['network'\]"),
        ({"permissions": ["netwrk"]}, r"unknown permission 'netwrk'; did you mean 'network'.* and custom:name"),
        ({"validators": None}, r"validators=...\) is a list, each item a function; got None"),
        ({"validators": [3]}, "each item a function; got 3 among them"),
        ({"validators": _go}, "each item a function; got"),
    ],
    ids=lambda value: re.sub(" at 0x[0-9a-f]+", "", repr(value)),
)
def test_declarations_of_wrong_types_are_refused(declared: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        tool(**declared)(_go)


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ({"name": 3}, r"raw_tool\(name=...\) is a text; got 3"),
        ({"description": None}, r"description=...\) is a text; got None"),
        ({"permissions": 3}, "each item a text, .*; got 3"),
        ({"permissions": [3]}, "each item a text, .*; got 3"),
        ({"function": Shop}, "must take .arguments. or .arguments, ctx."),
        ({"function": ByName}, r"it takes .*\*\*arguments"),
        ({"function": max}, "the signature of go cannot be read; wrap it in a function"),
        ({"function": tool(_go)}, "is a tool already"),
    ],
    ids=repr,
)
def test_raw_declarations_of_wrong_types_are_refused(declared: dict[str, Any], told: str) -> None:
    given = {"function": _go, "name": "go", "description": "", "parameters": {"type": "object"}, **declared}
    with pytest.raises(ConfigurationError, match=told):
        raw_tool(given.pop("function"), **given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Shop, "a tool is a typed function, something made by @tool, or an agent; got the class Shop"),
        (lambda question: "", "write it with def, with types, or name it with"),
        (len, "tool 'len': a builtin has no annotations; wrap it in a function with annotations"),
    ],
)
def test_what_is_no_tool_is_refused_where_the_agent_is_made(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Agent(ScriptedModel("x"), tools=[given])
