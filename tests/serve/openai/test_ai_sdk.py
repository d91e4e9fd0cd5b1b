"""The AI SDK talks with agents in all formats: text, streams, tools of the client, structured output, errors."""

import asyncio
import json
from typing import Any

import pytest

from tests.samples import sample
from tests.serve.openai.node import CLIENT, MISSING, find_packages
from tests.serve.serving import TOKEN, Serving, serving
from ziggurat import Agent, ModelRequest, Usage
from ziggurat.events import TextDelta
from ziggurat.messages import tool_call
from ziggurat.serve import app
from ziggurat.serve.application import ServedApp
from ziggurat.testing import ScriptedModel


def served() -> ServedApp:
    def echo(request: ModelRequest) -> str:
        return " | ".join([request.instructions or "", *(message.text for message in request.messages)])

    def agent(name: str, *replies: Any, **arguments: Any) -> Agent:
        return Agent(ScriptedModel(*replies, per_run=True, usage=Usage(input=9, output=4), **arguments), name=name)

    return app(
        [
            agent("clerk", "Good day."),
            agent("teller", [TextDelta("Once "), TextDelta("upon "), TextDelta("a time.")]),
            agent("forecaster", [TextDelta("I ask."), tool_call("weather", city="Oslo")], "Take a coat."),
            agent("reporter", '{"city":"Oslo","degrees":3}', output_modes=("native",)),
            Agent(ScriptedModel(always=echo), name="echo"),
        ],
        token=TOKEN,
    )


async def results_of(server: Serving, form: str) -> Any:
    folder = find_packages()
    if folder is None:
        pytest.skip(MISSING)
    process = await asyncio.create_subprocess_exec(
        *("node", "--input-type=module", "--eval", CLIENT.read_text(), form, server.address, TOKEN),
        cwd=folder,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


@pytest.mark.parametrize("form", sample(["chat", "responses", "compatible", "messages"], 1))
async def test_the_ai_sdk_talks_with_agents(form: str) -> None:
    async with serving(served()) as server:
        results = await results_of(server, form)
        assert results["text"] == {"text": "Good day.", "finishReason": "stop", "tokens": True}
        streamed = results["stream"]
        assert (streamed["pieces"], streamed["finishReason"]) == (["Once ", "upon ", "a time."], "stop")
        assert results["tools"] == {"text": "Take a coat.", "steps": [["It rains in Oslo."], []]}
        kinds = results["streamed_tools"]["kinds"]
        assert [kind for kind in kinds if kind in ("text-delta", "tool-call", "tool-result", "finish")] == [
            *("text-delta", "tool-call", "tool-result", "text-delta", "finish")
        ]
        assert results["streamed_tools"]["text"] == "Take a coat."
        assert results["conversation"]["text"] == "Be short. | I am Ann. | Hello, Ann. | Who am I?"
        assert results["object"] == {"city": "Oslo", "degrees": 3}
        assert results["unknown_model"]["status"] == 404
        assert "nobody" in results["unknown_model"]["message"]
        assert results["wrong_key"]["status"] == 401
        runs = (await server.get("/runs?limit=100"))["runs"]
        assert {run["status"] for run in runs} == {"Completed"}
        assert [run["agent"] for run in runs].count("forecaster") == 2  # each went on with the results of its tool
