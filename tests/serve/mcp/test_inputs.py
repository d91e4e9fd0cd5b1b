"""Tests of questions as forms, and of the answers in them."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from tests.serve.mcp.clients import ModernClient, serving_mcp
from tests.serve.mcp.test_modern import text_of
from ziggurat import serve, tool
from ziggurat.flows import ask


class Inner(Struct):
    value: int


class Nested(Struct):
    inner: Inner


@dataclass
class Plain:
    name: str
    age: int = 30


class Chosen(Struct):
    one: Literal["a", "b"]
    some: list[Literal["c", "d"]]


KINDS: list[tuple[Any, dict[str, Any], Any]] = [
    (str, {"answer": "x"}, "x"),
    (int, {"answer": 3}, 3),
    (bool, {"answer": False}, False),
    (float, {"answer": 2.5}, 2.5),
    (Literal["a", "b"], {"answer": "b"}, "b"),
    (Plain, {"name": "Ada"}, Plain("Ada")),
    (Chosen, {"one": "a", "some": ["c", "d"]}, Chosen("a", ["c", "d"])),
    (Nested, {"answer": '{"inner":{"value":3}}'}, Nested(Inner(3))),
    (list[int], {"answer": "[1,2]"}, [1, 2]),
    (dict[str, int], {"answer": '{"a":1}'}, {"a": 1}),
    (int | None, {"answer": "null"}, None),
    (Annotated[str, Meta(extra_json_schema={"oneOf": [{"const": "x", "title": "X"}]})], {"answer": "x"}, "x"),
]


@pytest.mark.parametrize(("kind", "content", "value"), KINDS)
async def test_a_question_of_any_type_is_a_flat_form(kind: Any, content: dict[str, Any], value: Any) -> None:
    answers: list[Any] = []

    @tool
    async def question() -> str:
        """Ask."""
        answers.append(await ask("Which?", kind, key="it"))
        return "done"

    async with serving_mcp(tools=[question]) as server:
        client = ModernClient(server)
        asked = await client.call("question")
        params = asked["inputRequests"]["it"]["params"]
        schema = params["requestedSchema"]
        assert (params["message"], params["mode"], schema["type"]) == ("Which?", "form", "object")
        assert {each["type"] for each in schema["properties"].values()} <= {
            "string",
            "number",
            "integer",
            "boolean",
            "array",
        }
        assert set(schema["required"]) <= schema["properties"].keys()
        done = await client.again("question", {}, asked, it={"action": "accept", "content": content})
        assert text_of(done) == "done"
    assert answers == [value]


async def test_a_call_of_unknown_outcome_is_settled_by_the_user() -> None:
    from ziggurat.errors import NotRepeatable

    @tool(effect="once")
    async def launch() -> str:
        """Launch."""
        raise NotRepeatable("the line was cut")

    async with serving_mcp(tools=[launch]) as server:
        result = await ModernClient(server).call("launch")
        assert result["resultType"] in ("input_required", "complete")


async def test_the_client_is_asked_for_a_reply_of_its_model() -> None:
    request = {"messages": [{"role": "user", "content": {"type": "text", "text": "Hello?"}}], "maxTokens": 9}

    @tool
    async def sample() -> str:
        """Sample."""
        return str((await serve.ask_client("sampling/createMessage", request))["content"]["text"])

    async with serving_mcp(tools=[sample]) as server:
        client = ModernClient(server, {"sampling": {}})
        asked = await client.call("sample")
        ((name, sent),) = asked["inputRequests"].items()
        assert sent == {"method": "sampling/createMessage", "params": request}
        reply = {"role": "assistant", "content": {"type": "text", "text": "Hi."}, "model": "m"}
        assert text_of(await client.again("sample", {}, asked, **{name: reply})) == "Hi."
