"""Read thoughts in the various forms of the dialects, and write them back.

Each of the ``reasoning_details`` (OpenRouter) becomes one `Thinking`: its text, signature or encrypted data unchanged,
and everything else about it (type, format, index, id) as JSON in the `id`, so that the list can be sent back unchanged
and in order. Gemini's signatures come before the tool call that they sign.
"""

from typing import Any

import msgspec

from ziggurat.core.codec import canonical
from ziggurat.messages.message import Thinking, ThinkingDelta
from ziggurat.models.http.dialect import Dialect

GOOGLE = "google"
"""The id of a thought that is only Google's signature of the tool call (or the text) after it."""

RECEIVED = {"reasoning-content": "reasoning_content", "reasoning": "reasoning"}
"""The ids of thoughts that are sent back in the field in which they came, with these fields; no item has such an id."""

_TEXTS = ("text", "summary")
_ABOUT = msgspec.json.Decoder(dict[str, Any])


def thought_deltas(reasoning: Any, content: Any, details: Any, dialect: Dialect) -> list[ThinkingDelta]:
    """Return the thoughts of a message or chunk as deltas; a thought repeated in two fields counts once."""
    deltas = detail_deltas(details) if details else []
    if any(delta.text for delta in deltas):
        return deltas
    said = isinstance(content, str) and content
    mark, text = ("reasoning-content", content) if said else ("reasoning", reasoning)
    if isinstance(text, str) and text:
        deltas.insert(0, ThinkingDelta(text, id=mark if dialect.reasoning_reply == "received" else None))
    return deltas


def detail_deltas(details: Any) -> list[ThinkingDelta]:
    """Return one delta per entry of ``reasoning_details``."""
    if not isinstance(details, list):
        return []
    return [_detail(each) for each in details if isinstance(each, dict)]


def _detail(detail: dict[str, Any]) -> ThinkingDelta:
    text = next((detail[name] for name in _TEXTS if isinstance(detail.get(name), str)), "")
    signature, data = detail.get("signature"), detail.get("data")
    about = {name: value for name, value in detail.items() if name not in (*_TEXTS, "signature", "data")}
    return ThinkingDelta(
        text,
        signature if isinstance(signature, str) else None,
        data if isinstance(data, str) else None,
        canonical(about).decode(),
    )


def details_of(thoughts: list[Thinking]) -> list[dict[str, Any]]:
    """Return the original ``reasoning_details``; thoughts from other fields are left out."""
    return [_rebuilt(thought, about) for thought in thoughts if (about := _about(thought.id)) is not None]


def _about(identity: str | None) -> dict[str, Any] | None:
    """Return the fields stored in the id of a thought; None for an id of another kind."""
    if identity is None or not identity.startswith("{"):
        return None
    try:
        return _ABOUT.decode(identity)
    except msgspec.DecodeError:
        return None


def _rebuilt(thought: Thinking, about: dict[str, Any]) -> dict[str, Any]:
    kind = about.get("type", "")
    rebuilt: dict[str, Any] = {"type": kind}
    if kind == "reasoning.summary":
        rebuilt["summary"] = thought.text
    elif thought.text or thought.redacted is None:
        rebuilt["text"] = thought.text
    if thought.redacted is not None:
        rebuilt["data"] = thought.redacted
    if thought.signature is not None:
        rebuilt["signature"] = thought.signature
    return {**rebuilt, **about}


def signature_delta(extra_content: Any) -> ThinkingDelta | None:
    """Return Google's signature as a thought without text; None if there is none."""
    google = extra_content.get("google") if isinstance(extra_content, dict) else None
    signature = google.get("thought_signature") if isinstance(google, dict) else None
    return ThinkingDelta("", signature, None, GOOGLE) if isinstance(signature, str) else None
