"""Read a plain reply of the Responses API."""

import msgspec

from ziggurat.messages.model import ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.openai_responses.items import read
from ziggurat.models.openai_responses.reply import ANSWERED, ResponseObject, raise_failure, response_of, unreadable

_reply = msgspec.json.Decoder(ResponseObject)


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a plain reply of the Responses API.

    Other fields of the reply are in the response's `raw`, if they have a value: ``status`` other than completed,
    ``incomplete_reason``, ``refusal`` (its text, which is also in the message), ``items`` (of the provider's own
    tools), ``annotations``, ``service_tier``.

    A reply that was cut off within a call, such as by its length limit, finishes ``malformed``, because the call's
    arguments are incomplete. ``raw["malformed"]`` is the text that tells the model.

    Raises:
        ModelError: the body reports a failure, or is not a reply (kind ``malformed``).
    """
    try:
        reply = read(_reply, body)
        raise_failure(reply, dialect)
        if reply.output is None and reply.status in ANSWERED:
            raise unreadable(dialect, "it has no output")
        return response_of(reply, reply.items())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error
