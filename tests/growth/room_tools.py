"""The readers, validators and renderers of `tools`, `agents`, `calls` and `observe`."""

import io
from typing import Any, Literal

from msgspec import Struct

from tests.growth.measure import Case
from tests.growth.room_messages import MESSAGES, decoding, given, over, values
from tests.growth.shapes import DEEP, JSON, TEXT, pieces
from ziggurat import Agent, Message, ModelResponse, Toolbox, ToolCall, ToolError, ToolResult, tool
from ziggurat.agents.output import AnswerReader
from ziggurat.agents.reply import accept_calls, judge_reply
from ziggurat.calls.tool_call import not_executed
from ziggurat.core.similar import similar
from ziggurat.errors import InvalidArguments
from ziggurat.messages.events import Delta
from ziggurat.messages.formatting import call_text, result_text, shortened
from ziggurat.messages.message import TextDelta
from ziggurat.messages.middleware import answer_in_text, refuse_calls, repair_message
from ziggurat.observe import ConsoleView
from ziggurat.testing import ScriptedModel
from ziggurat.tools import FunctionTool, SchemaValidator
from ziggurat.tools.arguments import explain, has_infinity, listing, read, shown
from ziggurat.tools.builtin import evaluate
from ziggurat.tools.results import error_result, result_of, text_of_error
from ziggurat.tools.signature import RawSchema, Signature, plain_form
from ziggurat.tools.validator import Unfolding, weight_of_patterns


class Trip(Struct):
    city: str
    days: int = 1
    a: list[Any] | None = None


@tool
async def plan(city: str, days: int = 1, a: list[float] | dict[str, int] | None = None, how: Trip | None = None) -> str:
    """Plan a trip."""
    return city


@tool
async def choose(color: Literal["red", "green"], size: float, parts: list[str]) -> str:
    """Choose a thing."""
    return color


@tool
async def travel(days: set[int]) -> str:
    """Travel on some days."""
    return str(len(days))


assert isinstance(plan, FunctionTool)
BOX = Toolbox([plan, choose])
PLAN, CHOOSE, TRAVEL = Signature.of(plan.function), Signature.of(choose.function), Signature.of(travel.function)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string", "pattern": "^[a-z]+$"}, "days": {"type": "integer"}, "a": {"anyOf": [
        {"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "integer"}}]}},
    "required": ["city"],
    "additionalProperties": False,
}  # fmt: skip
RAW = RawSchema.of(lambda arguments: "", "raw", SCHEMA)
VALIDATOR = SchemaValidator(SCHEMA)
SHALLOW = [each for each in JSON if each not in DEEP]  # what is nested more than 100 levels deep is refused before
CALL = ToolCall("c", "plan", "{}")
STRUCTURE = AnswerReader.of(Trip, ScriptedModel("x"))


def call_of(text: str) -> ToolCall:
    return ToolCall("c", "plan", text)


def told(signature: Signature, text: str) -> None:
    """Decode a call; its errors do not hold all that was wrong."""
    try:
        signature.decode(text)
    except InvalidArguments as error:
        if len(str(error)) > 30_000:
            raise AssertionError(f"an error of {len(str(error)):,} characters") from error


def streamed(terminal: bool) -> Any:
    def run(letters: list[str]) -> None:
        with ConsoleView(io.StringIO(), terminal=terminal, width=80) as view:
            for letter in letters:
                view(Delta("t/model", TextDelta(letter)))

    return run


def ran(message: Message) -> None:
    """Run an agent whose model sends this message: all stages, rules and folds of a run."""
    model = ScriptedModel(message, "done")
    Agent(model, tools=[plan], timeout=60).run_sync("go")


CASES = [
    *over("tools.arguments.read", read, JSON),
    *over("tools.signature.Signature.decode", lambda text: told(PLAN, text), JSON),
    *over("tools.signature.Signature.decode", lambda text: told(CHOOSE, text), JSON),
    *over("tools.signature.Signature.decode", lambda text: told(TRAVEL, text), JSON),
    *over("tools.signature.RawSchema.decode", RAW.decode, JSON),
    *decoding("tools.normal_form.plain_form", lambda text: plain_form(call_of(text))),
    *over("tools.signature.Signature.normalize", PLAN.normalize, JSON),
    *over("tools.signature.Signature.normalize", CHOOSE.normalize, JSON),
    *over("tools.signature.RawSchema.normalize", RAW.normalize, JSON),
    *over("tools.function.FunctionTool.normalize", lambda text: plan.normalize(call_of(text)), JSON),
    *values("tools.validator.SchemaValidator.problems", VALIDATOR.problems),
    *values("tools.validator.Unfolding.work", Unfolding.of(SCHEMA, "it").work),
    *values("tools.validator.weight_of_patterns", weight_of_patterns),
    *values("tools.arguments.has_infinity", has_infinity, SHALLOW),
    *values("tools.arguments.shown", shown),
    *values("tools.results.result_of", lambda value: result_of(value, CALL)),
    *over("tools.results.result_of", lambda text: result_of(text, CALL), TEXT),
    *over("tools.results.text_of_error", lambda text: text_of_error(ToolError(text)), TEXT),
    *over("tools.results.error_result", lambda text: error_result(ToolError(text), CALL), TEXT),
    *given("tools.results.text_of_error", text_of_error, {
        "a group": lambda size: ExceptionGroup("x", [ValueError(str(number)) for number in range(size)]),
    }),
    *over("tools.similar.similar", lambda text: similar(text, ["city", "days"] * 20), TEXT),
    *given("tools.similar.similar", lambda names: similar("cityyy", names), {
        "names": lambda size: [f"cit{number}y" for number in range(size)],
        "long names": lambda size: ["city" * 20 + str(number) for number in range(size)],
        "one long name": lambda size: ["city" * size],
    }),
    *given("tools.arguments.listing", listing, {
        "problems": lambda size: [f"x{number}: wrong" for number in range(size)],
        "a long problem": lambda size: ["x" * size],
        "lines": lambda size: ["x\n" * size],
    }),
    *over("tools.arguments.explain", lambda text: explained(text), JSON),
    *over("tools.toolbox.Toolbox.unknown", BOX.unknown, TEXT),
    *over("tools.builtin.evaluate", evaluate, TEXT),
    *over("agents.output.AnswerReader.read", STRUCTURE.read, (*JSON, *TEXT)),
    *given("messages.middleware.answer_in_text", lambda message: answer_in_text(ModelResponse(message)), MESSAGES),
    *given("agents.reply.judge_reply", lambda message: judge_reply(ModelResponse(message), None), MESSAGES),
    *given("messages.middleware.refuse_calls", lambda message: refuse_calls(message.tool_calls, "why"), MESSAGES),
    *given("agents.reply.accept_calls", lambda message: accept_calls(message.tool_calls), MESSAGES),
    *given("calls.batch.not_executed", lambda message: not_executed(message.tool_calls, "why"), MESSAGES),
    *over("messages.middleware.repair_message", repair_message, TEXT[:2]),
    *given("agents.loop.AgentLoop", ran, MESSAGES),
    *over("messages.formatting.shortened", shortened, TEXT),
    *over("messages.formatting.call_text", lambda text: call_text(call_of(text)), JSON),
    *over("messages.formatting.result_text", lambda text: result_text(ToolResult("c", "f", text)), TEXT),
    *[Case("observe.console.ConsoleView", f"{each} in letters", pieces(each), streamed(True), reach=32_000)
      for each in ("newlines", "blanks", "lines", "one_word", "words")],
    *[Case("observe.console.ConsoleView", f"{each} to a file", pieces(each), streamed(False))
      for each in TEXT[:3]],
    *over("observe.console.ConsoleView", lambda text: streamed(True)([text]), TEXT),
]  # fmt: skip


def explained(text: str) -> None:
    import msgspec

    try:
        msgspec.json.decode(text, type=Trip)
    except msgspec.ValidationError as error:
        explain("x", error, {"city": text}, SCHEMA)
    except (msgspec.DecodeError, RecursionError):
        return
