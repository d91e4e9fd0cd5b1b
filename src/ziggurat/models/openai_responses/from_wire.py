"""Reading a plain reply of Responses."""

__all__ = ["from_wire"]

import msgspec

from ziggurat.messages.model import ModelResponse
from ziggurat.models.http.dialect import Dialect
from ziggurat.models.openai_responses.items import read
from ziggurat.models.openai_responses.reply import ANSWERED, Reply, raise_failure, response_of, unreadable

_reply = msgspec.json.Decoder(Reply)


def from_wire(body: bytes, dialect: Dialect) -> ModelResponse:
    """Read a plain reply.

    What has no place in a response is in its `raw`, each field only where there is something to say: ``status`` other
    than completed, ``incomplete_reason``, ``refusal`` (its text, which is also the message's), ``items`` (of the
    provider's own tools), ``annotations``, ``service_tier``.

    A reply that was cut within a call (by its longest length, say) finishes ``malformed``: its arguments are not whole.
    What the model is told of it is in ``raw["malformed"]``.

    Raises:
        ModelError: the body reports a failure, or is not a reply at all (kind ``malformed``).
    """
    try:
        reply = read(_reply, body)
        raise_failure(reply, dialect)
        if reply.output is None and reply.status in ANSWERED:
            raise unreadable(dialect, "it has no output")
        return response_of(reply, reply.items())
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise unreadable(dialect, error) from error
