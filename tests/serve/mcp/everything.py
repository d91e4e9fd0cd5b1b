"""A server with what the conformance suite of MCP asks for, made by the ordinary means of `McpServer`.

`python -m tests.serve.mcp.everything PORT` serves it without a token, which the suite cannot send.
"""

import asyncio
import base64
import sys
from collections.abc import MutableMapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from ziggurat import Context, ToolError, raw_tool, serve, tool
from ziggurat.cli.serve import server_for
from ziggurat.errors import ConfigurationError, Denied
from ziggurat.events import Warned
from ziggurat.flows import ask, gather
from ziggurat.messages import Audio, File, Image
from ziggurat.serve.application import ServedApp
from ziggurat.serve.guard import Receive, Send

__all__ = ["TOKEN", "application", "for_suite", "offer"]

TOKEN = "a-token-for-tests-only"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SOUND = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
PAUSE = 0.4
"""Seconds that what is to become a task takes at least; calls become tasks after half of it."""


# -- tools that return something -------------------------------------------------------------------------------------


@tool(effect="none")
def test_simple_text() -> str:
    """Return a text."""
    return "This is a simple text response for testing."


@tool
def test_image_content() -> Image:
    """Return a picture."""
    return Image(PIXEL)


@tool
def test_audio_content() -> Audio:
    """Return sound."""
    return Audio(SOUND)


@tool
def test_embedded_resource() -> File:
    """Return a document."""
    return File(b"This is an embedded resource content.", url="test://embedded-resource", media_type="text/plain")


@tool
def test_multiple_content_types() -> list[str | Image | File]:
    """Return a text, a picture and a document."""
    document = File(b'{"test":"data","value":123}', url="test://mixed", media_type="application/json")
    return ["Multiple content types test:", Image(PIXEL), document]


@tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Warn three times."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.emit(Warned(ctx.path, text))
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@tool
async def test_logging_tool(ctx: Context) -> str:
    """Warn once."""
    await ctx.emit(Warned(ctx.path, "Careful"))
    return "done"


@tool
async def test_tool_with_progress() -> Any:
    """Report progress three times."""
    for done in (0, 50, 100):
        yield f"{done} of 100\n"
        await asyncio.sleep(0.05)


@tool
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


@tool
def test_x_mcp_header(
    region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})] = "<none>",  # noqa: PT028 - no test
) -> str:
    """Take an argument that is in a header, too."""
    return f"region={region}"


json_schema_2020_12_tool = raw_tool(
    lambda arguments: arguments,
    name="json_schema_2020_12_tool",
    description="Take what a large schema says.",
    parameters={
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            }
        },
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
)


# -- tools that ask --------------------------------------------------------------------------------------------------


class Name(Struct):
    name: str


class Color(Struct):
    color: str


class Confirmation(Struct):
    ok: bool


class Deletion(Struct):
    confirm: bool


class Account(Struct):
    username: Annotated[str, Meta(description="User's name")]
    email: Annotated[str, Meta(description="User's address")]


class Person(Struct):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Literal["active", "inactive", "pending"] = "active"
    verified: bool = True


def _titled(**titles: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in titles.items()]


class Choices(Struct):
    untitledSingle: Literal["option1", "option2", "option3"]
    titledSingle: Annotated[str, Meta(extra_json_schema={"oneOf": _titled(value1="First", value2="Second")})]
    legacyEnum: Annotated[
        str, Meta(extra_json_schema={"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]})
    ]
    untitledMulti: list[Literal["option1", "option2", "option3"]]
    titledMulti: list[Annotated[str, Meta(extra_json_schema={"anyOf": _titled(value1="First", value2="Second")})]]


def _sample(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}], "maxTokens": 100}


@tool
async def test_sampling(prompt: str) -> str:
    """Ask the client's model."""
    reply = await serve.ask_client("sampling/createMessage", _sample(prompt))
    return f"LLM response: {reply['content']['text']}"


@tool
async def test_elicitation(message: str) -> str:
    """Ask the user."""
    try:
        return f"User response: {await ask(message, Account)}"
    except Denied as denied:
        return f"User response: {denied}"


@tool
async def test_elicitation_sep1034_defaults() -> str:
    """Ask the user, with defaults."""
    return f"Elicitation result: action=accept, content={await ask('Who are you?', Person)}"


@tool
async def test_elicitation_sep1330_enums() -> str:
    """Ask the user to choose."""
    return f"Elicitation completed: action=accept, content={await ask('Choose', Choices)}"


@tool
async def test_streaming_elicitation() -> str:
    """Ask the user."""
    return (await ask("What is your name?", Name)).name


@tool
async def test_missing_capability() -> str:
    """Need the client's model."""
    return str(await serve.ask_client("sampling/createMessage", _sample("Hello?")))


@tool
async def test_input_required_result_elicitation() -> str:
    """Ask for a name."""
    return f"Hello, {(await ask('What is your name?', Name, key='user_name')).name}!"


@tool
async def test_input_required_result_sampling() -> str:
    """Ask the client's model for a capital."""
    question = _sample("What is the capital of France?")
    reply = await serve.ask_client("sampling/createMessage", question, key="capital_question")
    return f"Model said: {reply['content']['text']}"


@tool
async def test_input_required_result_list_roots() -> str:
    """Ask for the client's roots."""
    return f"{len((await serve.ask_client('roots/list', key='client_roots'))['roots'])} root(s)"


@tool
async def test_input_required_result_request_state() -> str:
    """Ask to confirm."""
    return f"state-ok: {(await ask('Please confirm', Confirmation, key='confirm')).ok}"


@tool
async def test_input_required_result_tampered_state() -> str:
    """Ask to confirm."""
    return f"state-ok: {(await ask('Please confirm', Confirmation, key='confirm')).ok}"


@tool
async def test_input_required_result_multiple_inputs() -> str:
    """Ask for a name, a greeting and roots."""
    await gather(
        ask("What is your name?", Name, key="user_name"),
        serve.ask_client("sampling/createMessage", _sample("Generate a greeting"), key="greeting"),
        serve.ask_client("roots/list", key="client_roots"),
    )
    return "All inputs received."


@tool
async def test_input_required_result_multi_round() -> str:
    """Ask for a name, then for a colour."""
    name = (await ask("Step 1: What is your name?", Name, key="step1")).name
    return f"{name} likes {(await ask('Step 2: What is your favorite color?', Color, key='step2')).color}."


@tool
async def test_input_required_result_capabilities() -> str:
    """Ask for what not every client can give."""
    await gather(
        serve.ask_client("sampling/createMessage", _sample("Say hello"), key="sample"),
        ask("What is your name?", Name, key="ask"),
    )
    return "done"


# -- tools that take long --------------------------------------------------------------------------------------------


@tool
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Hello, {name}!"


@tool
async def slow_compute(seconds: float, label: str = "") -> str:
    """Compute slowly."""
    await asyncio.sleep(seconds)
    return f"{label} took {seconds} s"


@tool
async def failing_job() -> str:
    """Fail slowly."""
    await asyncio.sleep(PAUSE)
    raise ToolError("the job has failed")


@tool
async def protocol_error_job() -> str:
    """Fail by a mistake, slowly."""
    await asyncio.sleep(PAUSE)
    raise ConfigurationError("a mistake in the job")


@tool
async def confirm_delete(filename: str) -> str:
    """Delete a file, after a while and if the user agrees."""
    await asyncio.sleep(PAUSE)
    return "deleted" if (await ask(f"Delete {filename}?", Deletion)).confirm else "kept"


@tool
async def multi_input() -> str:
    """Ask two questions at the same time, after a while."""
    await asyncio.sleep(PAUSE)
    return f"{await gather(ask('Your name?', Name), ask('And another?', Name))}"


@tool
async def test_tool_with_task() -> str:
    """Ask for a name, then take a while."""
    name = (await ask("What is your name?", Name, key="user_name")).name
    await asyncio.sleep(PAUSE)
    return f"Done for {name}"


@tool
async def test_reconnection() -> str:
    """Take longer than the connection lasts, which `_ForSuite` cuts."""
    await asyncio.sleep(1.5)
    return "Reconnection test completed"


# -- resources and prompts -------------------------------------------------------------------------------------------


@serve.resource("test://static-text", media_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@serve.resource("test://static-binary", media_type="image/png")
def static_binary() -> Image:
    """A picture."""
    return Image(PIXEL)


@serve.resource("test://template/{id}/data", media_type="application/json")
def template(id: str) -> dict[str, Any]:  # noqa: A002 - the suite's name
    """Data for an id."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


@serve.resource("test://watched-resource")
def watched() -> str:
    """A text that changes."""
    return "Watched resource content"


def test_simple_prompt() -> str:
    """A prompt."""
    return "This is a simple prompt for testing."


def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with two arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def test_prompt_with_embedded_resource(resourceUri: str) -> list[str | File]:
    """A prompt with a document."""
    document = File(b"Embedded resource content for testing.", url=resourceUri, media_type="text/plain")
    return [document, "Please process the embedded resource above."]


def test_prompt_with_image() -> list[str | Image]:
    """A prompt with a picture."""
    return [Image(PIXEL), "Please analyze the image above."]


class Topic(Struct):
    context: str


async def test_input_required_result_prompt() -> str:
    """A prompt that asks."""
    return f"Use the following context: {(await ask('Which context?', Topic, key='user_context')).context}"


TOOLS = [
    each
    for name, each in list(globals().items())
    if (name.startswith("test_") and hasattr(each, "spec"))
    or name
    in (
        "json_schema_2020_12_tool",
        "greet",
        "slow_compute",
        "failing_job",
        "protocol_error_job",
        "confirm_delete",
        "multi_input",
    )
]


def offer() -> serve.McpServer:
    return serve.McpServer(
        tools=TOOLS,
        resources=[static_text, static_binary, template, watched],
        prompts=[
            test_simple_prompt,
            test_prompt_with_arguments,
            test_prompt_with_embedded_resource,
            test_prompt_with_image,
            test_input_required_result_prompt,
        ],
        task_after=PAUSE / 2,
        tasks=["failing_job"],
    )


def application(store: str | None = None) -> ServedApp:
    return serve.app([], mcp=offer(), token=TOKEN, store=store)


class _ForSuite:
    """Adds the token to all requests, which the suite cannot, and cuts the stream of `test_reconnection` once."""

    def __init__(self, app: ServedApp) -> None:
        self._app, self.agents, self.token = app, app.agents, app.token

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        cut, reconnects = asyncio.Event(), False

        async def hear() -> MutableMapping[str, Any]:
            nonlocal reconnects
            waiting = [asyncio.ensure_future(each) for each in (receive(), cut.wait())]
            try:
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for each in waiting:
                    each.cancel()
            if cut.is_set():
                return {"type": "http.disconnect"}
            message: Any = waiting[0].result()
            reconnects = reconnects or b'"test_reconnection"' in message.get("body", b"")
            return dict(message)

        async def tell(message: MutableMapping[str, Any]) -> None:
            await send(message)
            if reconnects and b"retry:" in message.get("body", b""):
                cut.set()

        scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {TOKEN}".encode())]
        await self._app(scope, hear, tell)
        if cut.is_set():
            await send({"type": "http.response.body", "body": b""})


def for_suite() -> Any:
    return _ForSuite(application())


if __name__ == "__main__":
    asyncio.run(server_for(for_suite(), "127.0.0.1", int(sys.argv[1])).serve())
