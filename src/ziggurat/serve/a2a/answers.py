"""Answers to what a task waits for, in the messages of A2A."""

from collections.abc import Mapping

from msgspec import UNSET

from ziggurat.calls.check import misfit_of_schema
from ziggurat.core import jsonrpc
from ziggurat.core.errors import ConfigurationError
from ziggurat.messages.agent import PendingItem
from ziggurat.serve.ui.answers import schema_of_answer
from ziggurat.wires import a2a

_YES, _NO = ("approve", "approved", "yes", "true"), ("deny", "denied", "no", "false")


def read_answers(message: a2a.Message, items: list[PendingItem]) -> Mapping[str, object]:
    """Return the answers in a message to what a task waits for: a value by its id, or the text of the only answer."""
    ids = {item.id for item in items}
    data = [part.data for part in message.parts if isinstance(part.data, dict)]
    answers = {name: value for each in data for name, value in each.items() if name in ids}
    if answers:
        return answers
    if len(items) != 1:
        raise ConfigurationError(f"the task waits for several answers, by their ids: {', '.join(ids)}")
    return {items[0].id: _answer(message, items[0])}


def _answer(message: a2a.Message, item: PendingItem) -> object:
    values = [part.data for part in message.parts if part.data is not UNSET]
    if values:
        return values[0]
    text = message.text
    if item.stage == "question":
        schema = schema_of_answer(item)
        return text if misfit_of_schema(schema, text) is None else _value(text)
    word = text.strip().lower()
    if item.interrupted or word not in (*_YES, *_NO):
        raise ConfigurationError(f"{item.call.name}: answer 'approve' or 'deny', or with data of its schema")
    return {"approved": word in _YES}


def _value(text: str) -> object:
    try:
        return jsonrpc.parse(text.encode(), object)
    except jsonrpc.JsonRpcError:
        return text
