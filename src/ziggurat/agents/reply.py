"""Check whether a model's reply can be used, and build the messages that tell the model if not."""

from ziggurat.agents.output import AnswerReader
from ziggurat.agents.stop import natural_end
from ziggurat.core.errors import InvalidArguments
from ziggurat.messages import stops
from ziggurat.messages.caller import ParsedAnswer, answer_in_text
from ziggurat.messages.limits import MAX_CALLS
from ziggurat.messages.message import Message
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import Text, ToolCall, ToolResult
from ziggurat.messages.tool import FINAL_ANSWER


def judge_reply(response: ModelResponse, output: AnswerReader | None) -> tuple[str | None, ParsedAnswer | None]:
    """Return what is wrong with a reply, or the answer it gives; neither if it only calls tools."""
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
        if output.takes_text and response.text.strip():
            return None, ParsedAnswer(response.text)
        fault = f"give the final answer by calling {FINAL_ANSWER}"
    else:
        try:
            return None, ParsedAnswer(output.read(response.text if final is None else final.arguments))
        except InvalidArguments as error:
            fault = str(error)
    ended = final is None and not isinstance(natural_end(response), stops.Completed)
    return (None if ended else fault), None


def end_of(response: ModelResponse, output: AnswerReader | None) -> stops.Stop:
    """Return the stop for a reply with an answer: one that fits its type is whole, whatever the provider says."""
    is_text = output is None or (output.mode == "tool" and not response.tool_calls)
    return natural_end(response) if is_text else stops.Completed()


def final_answer_in(response: ModelResponse, output: AnswerReader | None) -> ParsedAnswer | None:
    """Return the final answer in a reply, in the type of the output; None if there is none that fits it."""
    return answer_in_text(response) if output is None else judge_reply(response, output)[1]


def refuse_calls(calls: tuple[ToolCall, ...], fault: str) -> tuple[ToolResult, ...]:
    """Return error results for the calls of a reply that is not used."""
    return tuple(ToolResult(call.id, call.name, fault, "invalid_arguments", call.name) for call in calls)


def repair_message(fault: str) -> Message:
    """Return the message that asks the model for another reply."""
    return Message("user", (Text(f"{fault}\nPlease answer again."),), None, "runtime")


def accept_calls(calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
    """Return results for the calls of a reply with the final answer: the first final answer counts."""
    final = next((call.id for call in calls if call.name == FINAL_ANSWER), None)
    return tuple(
        ToolResult(call.id, call.name, "accepted", None, call.name)
        if call.id == final
        else ToolResult(call.id, call.name, "not executed: the final answer was given", "interrupted", call.name)
        for call in calls
    )
