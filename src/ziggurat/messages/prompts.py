"""Prompts: what an agent is asked, with earlier messages, checked before it becomes a request."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from ziggurat.core.errors import ConfigurationError, EmptyPrompt
from ziggurat.messages.agent import AgentRequest
from ziggurat.messages.message import Message, Part, Text, mended, user
from ziggurat.messages.validation import SENDABLE, problem_in, validate

History = Annotated[Sequence[Message], Meta(description="as messages.from_openai(...) makes them of dictionaries")]

Prompt = Annotated[
    str | Message | Part | Sequence[str | Part | Message],
    Meta(
        title="text, a message, or a list of parts and messages, which messages.from_openai(...) makes of dictionaries"
    ),
]
"""A question: text, a message, or parts and messages in order."""


def request_of(prompt: Prompt | None, history: Sequence[Message] = ()) -> AgentRequest:
    """Turn a prompt and earlier messages into a request; without a prompt, the earlier messages alone."""
    earlier = () if history == () else _check_history(_check_messages(history, "history"))
    if prompt is None:
        return _to_continue(earlier)
    if isinstance(prompt, str):
        if not prompt.strip():
            raise _empty_prompt()
        return AgentRequest((*earlier, Message("user", (Text(mended(prompt)),))))
    if isinstance(prompt, (Message, Part)):
        prompt = [prompt]
    if not prompt:
        raise _empty_prompt()
    messages: list[Message] = []
    loose: list[str | Part] = []
    for each in prompt:
        if isinstance(each, Message):
            if loose:
                messages.append(user(*loose))
                loose.clear()
            messages.append(each)
        else:
            loose.append(each)
    if loose:
        messages.append(user(*loose))
    for message in _check_messages(messages, "prompt"):
        if not any(not isinstance(part, Text) or part.text.strip() for part in message.parts):
            raise _empty_prompt()
    return AgentRequest(tuple(_check_history((*earlier, *messages))))


def user_messages(prompt: Prompt, verb: str) -> tuple[Message, ...]:
    messages: tuple[Message, ...] = request_of(prompt).messages
    if any(message.role != "user" for message in messages):
        raise ConfigurationError(f"{verb}() takes what a user says: text, parts, or messages made with user(...)")
    return messages


def _to_continue(history: Sequence[Message]) -> AgentRequest:
    if not history or history[-1].role == "assistant":
        raise EmptyPrompt("there is nothing to answer: pass a prompt, or a history that ends with a question")
    return AgentRequest(tuple(history))


def _empty_prompt() -> EmptyPrompt:
    return EmptyPrompt("the prompt is empty: pass a question or a task as text")


def _check_messages(messages: Sequence[Message], what: str) -> Sequence[Message]:
    for number, message in enumerate(messages):
        wrong = problem_in(message)
        if wrong is not None:
            raise ConfigurationError(f"message {number} of the {what} cannot be sent: {wrong}")
    return messages


def _check_history(history: Sequence[Message]) -> Sequence[Message]:
    wrong = validate(history, SENDABLE)
    if wrong is not None:
        raise ConfigurationError(f"the history cannot be sent to a model: {wrong}")
    return history
