"""Output guardrails: check final answers, and call the model again if one does not pass."""

__all__ = ["OutputGuardrail"]

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, Denied
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeInt, checked
from ziggurat.messages.conversation import Transcript
from ziggurat.messages.delta import fit
from ziggurat.messages.message import Message, tool_message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.messages.parts import Text, ToolResult
from ziggurat.messages.tool import FINAL_ANSWER

Check = Callable[[str, Context], str | Awaitable[str | None] | None]
"""Returns what is wrong with an answer, written for the model, or None."""


class OutputGuardrail(Middleware):
    """Checks final answers; if one does not pass, the model gets the reason and is called again.

    A final answer is a reply without tool calls, or the JSON of a typed answer. Refused answers do not enter the
    conversation, and listeners are told to discard them. Their usage is counted.

    ::

        OutputGuardrail(lambda text, ctx: "name no prices" if "$" in text else None)

    Args:
        check: Called with the answer and the context; sync or async.
        retries: The number of times that the model may try again.

    Raises:
        ConfigurationError: `check` cannot be called, or `retries` is not a whole number of at least 0.
    """

    @checked
    def __init__(self, check: Check, *, retries: NonNegativeInt = 2) -> None:
        self._check = check
        self.retries = retries

    async def wrap_model(
        self, request: ModelRequest, ctx: Context, model: Service[ModelRequest, ModelResponse]
    ) -> ModelResponse:
        """Call the model, check its answer, and repeat up to `retries` times.

        Raises:
            Denied: no answer passed; it stops the run.
            ConfigurationError: the check returned neither a text nor None.
        """
        for number in range(1, self.retries + 2):
            response = await model(request, ctx.under(f"alt-{number}"))
            answer = _answer_of(response)
            found = None if answer is None else self._check(answer, ctx)
            fault = await found if isinstance(found, Awaitable) else found
            if fault is None:
                return response
            if not isinstance(fault, str):
                raise ConfigurationError(
                    f"the check of OutputGuardrail() returns what is wrong as a string, or None; it returned {fault!r}"
                )
            ctx.charge(response.usage)
            request = replace(request, messages=Transcript.of(*request.messages, *_request_again(response, fault)))
        raise Denied(f"no answer passed the check in {self.retries + 1} tries: {fault}")


def _answer_of(response: ModelResponse) -> str | None:
    """Return the final answer in a reply; None if it calls tools, or is not complete."""
    final = next((call for call in response.tool_calls if call.name == FINAL_ANSWER), None)
    if final is not None:
        return final.arguments
    return None if response.tool_calls or response.finish in ("malformed", "paused") else response.text


def _request_again(response: ModelResponse, fault: str) -> list[Message]:
    """Return the messages to append: the refused reply, and the request for another."""
    message = fit(response.message)
    results = [
        tool_message(ToolResult(call.id, call.name, fault, "invalid_arguments", call.name))
        for call in message.tool_calls
    ]
    if results:
        return [message, *results]
    told = Message("user", (Text(f"{fault}\nPlease answer again."),), None, "runtime")
    return [message, told] if message.parts else [told]
