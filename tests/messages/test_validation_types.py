"""Type checks for messages created in user code."""

from typing import Any

import pytest

from ziggurat import ConfigurationError, Image, Message, Text, ToolCall, ToolResult, user
from ziggurat.messages import Audio, File, Thinking, assistant, tool_message
from ziggurat.messages.prompts import request_of
from ziggurat.messages.validation import problem_in

WRONG: list[tuple[Any, str]] = [
    (Text(3), r"Text: .*\$.text"),  # type: ignore[arg-type]
    (Image(data=3), r"Image\(data=...\) takes bytes: give bytes\(...\); got 3"),  # type: ignore[arg-type]
    (Image(data="cat.png"), r"give Path\(...\).read_bytes\(\), or the address as url="),  # type: ignore[arg-type]
    (Image(data=bytearray(b"x")), "takes bytes"),  # type: ignore[arg-type]
    (Image(url=3), r"Image: .*\$.url"),  # type: ignore[arg-type]
    (Image(), r"Image\(\) holds nothing: give data=b'...', url="),
    (Image(b"x", media_type="png"), r"Image\(media_type=...\) is a type such as 'image/png', got 'png'"),
    (Image(b"x", media_type=3), "Image\\(media_type=...\\) is a type such as"),  # type: ignore[arg-type]
    (Image(b"x", detail=3), r"Image: .*\$.detail"),  # type: ignore[arg-type]
    (Audio(data="x"), r"Audio\(data=...\) takes bytes"),  # type: ignore[arg-type]
    (Audio(), r"Audio\(\) holds nothing"),
    (File(), r"File\(\) holds nothing: give data=b'...', url='https://...' or id="),
    (File(b"x", name=3), r"File: .*\$.name"),  # type: ignore[arg-type]
    (File(id=3), r"File: .*\$.id"),  # type: ignore[arg-type]
    (Thinking(3), r"Thinking: .*\$.text"),  # type: ignore[arg-type]
    (Thinking("x", signature=3), r"Thinking: .*\$.signature"),  # type: ignore[arg-type]
    (ToolCall("1", "add", {"a": 1}), r"ToolCall: .*\$.arguments"),  # type: ignore[arg-type]
    (ToolResult("1", "add", 3), r"ToolResult: .*\$.content"),  # type: ignore[arg-type]
    (ToolResult("1", "add", (3,)), r"ToolResult: .*\$.content\[0\]"),  # type: ignore[arg-type]
    (ToolResult("1", "add", (Image(),)), r"Image\(\) holds nothing"),
    (ToolResult("1", "add", error="odd"), r"ToolResult: .*\$.error"),  # type: ignore[arg-type]
    (3, "a message is made of parts, got 3; write Text"),
]


@pytest.mark.parametrize(("part", "told"), WRONG, ids=[repr(part) for part, _ in WRONG])
def test_a_part_of_the_wrong_type_is_told_where_it_enters(part: Any, told: str) -> None:
    for message in (Message("user", (Text("x"), part)), Message("tool", (part,))):
        with pytest.raises(ConfigurationError, match=f"message 0 of the prompt cannot be sent: .*{told}"):
            request_of(message)
        with pytest.raises(ConfigurationError, match=f"message 1 of the history cannot be sent: .*{told}"):
            request_of("go", [user("x"), message])


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (Message("user", "x"), r"Message: .*\$.parts"),  # type: ignore[arg-type]
        (Message("user", None), r"Message: .*\$.parts"),  # type: ignore[arg-type]
        (Message("user", (Text("x"),), 3), r"Message: .*\$.name"),  # type: ignore[arg-type]
        (Message("user", (Text("x"),), None, 3), r"Message: .*\$.origin"),  # type: ignore[arg-type]
        (Message("user", (Text("x"),), taint="web"), r"Message: .*\$.taint"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_message_of_the_wrong_types_is_told_where_it_enters(message: Message, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        request_of(message)


def test_what_holds_what_it_promises_passes() -> None:
    for message in (
        user("x", Image(b"x"), Image(url="https://example.org/cat.png"), Audio(b"x"), File(id="f1"), File(b"")),
        assistant(Thinking("hm", "s"), Thinking(redacted="r"), Text("y"), ToolCall("1", "add", "nonsense")),
        tool_message(ToolResult("1", "add", (Text("3"), Image(b"x")), "permanent", "web")),
        Message("user", (Text("x"),), "ann", "memory", ("web",)),
    ):
        assert problem_in(message) is None
