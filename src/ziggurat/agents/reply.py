"""Check a model's reply, and a final answer by the validator of the user; ask again until a reply is usable."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct

from ziggurat.agents.output import AnswerReader
from ziggurat.calls.tool_call import not_executed
from ziggurat.core.context import Context, running
from ziggurat.core.errors import ConfigurationError, InvalidArguments, ModelError, ModelRetry
from ziggurat.core.failures import noting_mistakes
from ziggurat.messages import stops
from ziggurat.messages.arguments import MAX_CALLS
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.middleware import ParsedAnswer, answer_in_text, refuse_calls, repair_message
from ziggurat.messages.model import FINAL_ANSWER, ModelResponse
from ziggurat.tools.type_parts import alternatives

if TYPE_CHECKING:
    from ziggurat.agents.loop import LoopRun

PAUSES = 10
"""How often a model that paused may continue within one step."""

REPAIRS = 2
"""How often the model is asked again within one step when its reply cannot be parsed."""


def judge_reply(response: ModelResponse, output: AnswerReader | None) -> tuple[str | None, ParsedAnswer | None]:
    # Nor if it does not fit because it is not whole, such as a refusal: asking again would not change that.
    if response.finish == "malformed":
        fault = (response.raw or {}).get("malformed")
        return str(fault or "your last reply could not be read"), None
    calls = response.message.tool_calls
    if len(calls) > MAX_CALLS:
        return f"your reply makes {len(calls):,} tool calls, and one reply may make {MAX_CALLS:,}: make fewer", None
    if output is None:
        return None, None
    final = next((call for call in calls if call.name == FINAL_ANSWER), None)
    if calls and final is None:
        return None, None
    if final is None and output.mode == "tool":
        if str in alternatives(output.kind) and response.text.strip():  # it may be written without the tool, too
            return None, ParsedAnswer(response.text)
        fault = f"give the final answer by calling {FINAL_ANSWER}"
    else:
        try:
            return None, output.read(response.text if final is None else final.arguments)
        except InvalidArguments as error:
            fault = str(error)
    ended = final is None and not isinstance(stops.natural_end(response.finish), stops.Completed)
    return (None if ended else fault), None


def end_of(response: ModelResponse, output: AnswerReader | None) -> stops.Stop:
    """Return the stop for a reply with an answer: one that fits its type is whole, whatever the provider says."""
    is_text = output is None or (output.mode == "tool" and not response.tool_calls)
    return stops.natural_end(response.finish) if is_text else stops.Completed()


def final_answer_in(response: ModelResponse, output: AnswerReader | None) -> ParsedAnswer | None:
    return answer_in_text(response) if output is None else judge_reply(response, output)[1]


def accept_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
    """Return results for the calls of a reply with the final answer: the first final answer counts."""
    final = next((call.id for call in calls if call.name == FINAL_ANSWER), None)
    return tuple(
        ToolResult(call.id, call.name, "accepted", None, call.name)
        if call.id == final
        else ToolResult(call.id, call.name, "not executed: the final answer was given", "interrupted", call.name)
        for call in calls
    )


OutputValidator = Annotated[Callable[[Any, Context], Any | Awaitable[Any]], Meta(title="function of (answer, ctx)")]
"""Called with a final answer; returns the value to use, None for this one, or raises ModelRetry."""


class _Verdict(Struct, frozen=True):
    fault: str | None = None
    value: Any = None


async def validate_answer(
    validator: OutputValidator, answer: ParsedAnswer, output: AnswerReader | None, ctx: Context
) -> tuple[str | None, ParsedAnswer | None]:
    """Return the fault that a validator finds in an answer, or the answer to use; recorded, so it is judged once."""

    live: list[object] = []

    async def judge(_: None, ctx: Context) -> _Verdict:
        try:
            with noting_mistakes(), running(ctx):  # an agent that it calls is a part of this run
                value = validator(answer.value, ctx)
                if isinstance(value, Awaitable):
                    value = await value
        except ModelRetry as retry:
            return _Verdict(str(retry))
        if value is None or value is answer.value:
            live.append(answer.value)
            accepted = () if answer.accepted is UNSET else (answer.accepted,)
            return _Verdict(None, _as_recorded(answer.value, output, ctx, *accepted))
        form = _as_recorded(value, output, ctx)
        live.append(form if output is None else output.parameter.revive(form))
        return _Verdict(None, form)

    verdict = await ctx.once("output_validator", None, judge, returns=_Verdict, composite=True)
    if verdict.fault is not None:
        return verdict.fault, None
    value = live[0] if live else verdict.value if output is None else output.parameter.revive(verdict.value)
    return None, ParsedAnswer(value, UNSET if output is None else verdict.value)


def _as_recorded(value: object, output: AnswerReader | None, ctx: Context, *accepted: object) -> object:
    try:
        if output is not None:
            return output.parameter.recorded(value, *accepted) if accepted else output.parameter.given(value)
        if isinstance(value, str):
            return value
        raise TypeError("expected a text")
    except (TypeError, ConfigurationError) as error:
        kind = "str" if output is None else output.name
        raise ConfigurationError(
            f"{ctx.path}: the output validator returned {value!r:.200}, which is not of the type {kind} ({error}); it "
            "returns the value to use, or None to leave the answer as it is"
        ) from error


async def usable_reply(run: "LoopRun", response: ModelResponse) -> tuple[ModelResponse, ParsedAnswer | None]:
    settings, step = run.loop, f"step-{run.steps}"
    bound = REPAIRS if settings.output is None else settings.output.retries
    tries = 1
    pauses = 0
    while True:
        calls = response.message.tool_calls
        if response.finish == "paused" and not calls and pauses < PAUSES:
            pauses += 1
            response = await run.ask_model(f"{step}/model#{tries + pauses}")
            continue
        with noting_mistakes():  # errors of the code of the output's type
            fault, answer = judge_reply(response, settings.output)
        if fault is None and settings.validator is not None:
            final = final_answer_in(response, settings.output) if answer is None else answer
            if final is not None and isinstance(end_of(response, settings.output), stops.Completed):
                at = run.ctx.at(f"{step}/output-{tries}")
                fault, answer = await validate_answer(settings.validator, final, settings.output, at)
        if fault is None:
            return response, answer
        if tries > bound:
            run.add_results(not_executed(calls, "the reply was not accepted"))
            raise ModelError(f"the model's reply was not usable after {tries} tries: {fault}")
        run.add_results(refuse_calls(calls, fault))
        if not calls:
            run.conversation.append(repair_message(fault))
        tries += 1
        response = await run.ask_model(f"{step}/model#{tries + pauses}")
