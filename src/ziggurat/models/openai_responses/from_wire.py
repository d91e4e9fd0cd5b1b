"""Read a plain reply of the Responses API."""

import msgspec

from ziggurat.messages.model import ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.openai_responses.items import read
from ziggurat.models.openai_responses.reply import ANSWERED, ResponseObject, raise_failure, response_of, unreadable

_reply = msgspec.json.Decoder(ResponseObject)


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a plain reply of the Responses API."""
    # A reply that was cut off within a call, such as by its length limit, finishes ``malformed``, because the call's
    # arguments are incomplete. ``raw["malformed"]`` is the text that tells the model.
    try:
        reply = read(_reply, body)
        raise_failure(reply, dialect)
        if reply.output is None and reply.status in ANSWERED:
            raise unreadable(dialect, "it has no output")
        return response_of(reply, reply.items())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error
