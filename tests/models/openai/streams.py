"""Five streams as different servers send them, and their messages."""

import json
from typing import Any

from ziggurat import ModelResponse, Text, ToolCall
from ziggurat.http.sse import EventParser, ServerEvent
from ziggurat.messages import Thinking
from ziggurat.messages.message import Part, PartDelta
from ziggurat.models.http.dialect import DIALECTS
from ziggurat.models.openai import Reader

DONE = "data: [DONE]\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> str:
    """Return one event of a stream."""
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return f"data: {json.dumps({'id': 'r1', 'model': 'm1', 'choices': choices, **more}, ensure_ascii=False)}\n\n"


def call(**piece: Any) -> dict[str, Any]:
    """Return a delta with one piece of a tool call; `name` and `arguments` are its function's."""
    function = {name: piece.pop(name) for name in ("name", "arguments") if name in piece}
    return {"tool_calls": [{**piece, "function": function}]}


def usage(read: float, written: float, **more: Any) -> dict[str, Any]:
    """Return the usage of a chunk."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written, **more}


TEXT = (
    chunk({"role": "assistant", "content": "", "refusal": None})
    + chunk({"content": "Grüße, "})
    + chunk({"content": "日本 🗼"})
    + chunk({}, "stop")
    + chunk(usage=usage(9, 5, prompt_tokens_details={"cached_tokens": 4}))
    + DONE
)

PARALLEL = (
    chunk({"role": "assistant", "content": None} | call(index=0, id="a", type="function", name="add", arguments=""))
    + chunk(call(index=0, arguments='{"x": '))
    + chunk(call(index=1, id="b", type="function", name="sub", arguments=""))
    + chunk(call(index=1, arguments='{"y": 2'))
    + chunk(call(index=0, arguments='"one"}'))
    + chunk(call(index=1, arguments="2}"))
    + chunk({}, "tool_calls")
    + DONE
)

_ABOUT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}

ROUTED = (
    ": OPENROUTER PROCESSING\n\n"
    + chunk({"reasoning": "let me ", "reasoning_details": [{**_ABOUT, "text": "let me "}]})
    + ": OPENROUTER PROCESSING\n\n"
    + chunk({"reasoning": "see", "reasoning_details": [{**_ABOUT, "text": "see"}]})
    + chunk({"reasoning_details": [{**_ABOUT, "signature": "sig=="}]})
    + chunk({"content": "so"})
    + chunk({"content": ""}, "stop", usage=usage(9, 5))
    + DONE
).replace("\n", "\r\n")

PARTS = (
    chunk({"role": "assistant", "content": ""})
    + chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]})
    + chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "m"}], "closed": True}]})
    + chunk({"content": "both:"})
    + chunk(
        {
            "tool_calls": [
                {"id": "a", "function": {"name": "add", "arguments": '{"x": 1}'}},
                {"id": "b", "function": {"name": "add", "arguments": '{"x": 2}'}},
            ]
        },
        "tool_calls",
        usage=usage(9, 5),
    )
    + DONE
)

UNMARKED = (
    chunk({"content": "1"}, usage=usage(9, 1))
    + chunk({"content": " 2"}, usage=usage(9, 2))
    + chunk({"content": ""}, "stop", usage=usage(9, 3))
)

STREAMS: dict[str, tuple[str, str, tuple[Part, ...]]] = {
    "text": ("openai", TEXT, (Text("Grüße, 日本 🗼"),)),
    "parallel": ("openai", PARALLEL, (ToolCall("a", "add", '{"x": "one"}'), ToolCall("b", "sub", '{"y": 22}'))),
    "routed": (
        "openrouter",
        ROUTED,
        (Thinking("let me see", "sig==", None, json.dumps(_ABOUT, separators=(",", ":"), sort_keys=True)), Text("so")),
    ),
    "parts": (
        "mistral",
        PARTS,
        (Thinking("hmm"), Text("both:"), ToolCall("a", "add", '{"x": 1}'), ToolCall("b", "add", '{"x": 2}')),
    ),
    "unmarked": ("ollama", UNMARKED, (Text("1 2"),)),
}
"""Each stream by name: its dialect, its bytes as text, and its parts."""


def events(text: str | bytes) -> list[ServerEvent]:
    """Return the events of a stream that ended there."""
    parser = EventParser()
    return [*parser.feed(text.encode() if isinstance(text, str) else text), *parser.close()]


def told(text: str | bytes, dialect: str = "openai") -> tuple[ModelResponse, list[PartDelta]]:
    """Return the response and the deltas of a stream."""
    reader = Reader(DIALECTS[dialect])
    deltas = [delta for event in events(text) for delta in reader.push(event)]
    return reader.finish(), deltas


def said(text: str | bytes, dialect: str = "openai") -> tuple[Part, ...]:
    """Return the parts of a stream's message."""
    return told(text, dialect)[0].message.parts
