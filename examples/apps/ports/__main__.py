"""Run all ports, each with a scripted model in place of the one that its original asks.

python -m examples.apps.ports                       # no key
python -m examples.apps.ports openai:gpt-5-mini     # a real model, but for those in agent_runtime/
"""

import asyncio
import runpy
import sys
import tempfile

from examples.apps.ports import (
    ask_human,
    bank_support,
    human_in_the_loop,
    lines,
    llm_as_a_judge,
    roulette_wheel,
    structured_weather,
)

from ziggurat.messages import tool_call
from ziggurat.testing import ScriptedModel

TEMPERATURE = [tool_call("get_weather", id="a", city="Oakland"), tool_call("get_temperature", id="b", city="Oakland")]
SCRIPTS = {
    bank_support: ScriptedModel(
        tool_call("balance"),
        tool_call("final_answer", advice="Hello John, your balance is $123.45.", block_card=False, risk=1),
        tool_call("final_answer", advice="I have blocked your card, John.", block_card=True, risk=8),
    ),
    roulette_wheel: ScriptedModel(
        tool_call("roulette_wheel", square=18),
        tool_call("final_answer", value=True),
        tool_call("roulette_wheel", square=5),
        tool_call("final_answer", value=False),
    ),
    human_in_the_loop: ScriptedModel(TEMPERATURE, "It is sunny in Oakland, at 20° Celsius."),
    llm_as_a_judge: ScriptedModel(
        "A detective looks for a lost moon.",
        tool_call("final_answer", feedback="Who took it?", score="needs_improvement"),
        "A detective finds that a comet took the moon.",
        tool_call("final_answer", feedback="Good.", score="pass"),
    ),
    structured_weather: ScriptedModel(
        tool_call("get_weather", city="sf"),
        tool_call("final_answer", temperature=75, wind_direction="SE", wind_speed=4.8),
    ),
    ask_human: ScriptedModel(
        tool_call("ask_human", question="Where are you?"),
        tool_call("search", query="weather in san francisco"),
        "It is sunny in San Francisco.",
    ),
}


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for port, script in SCRIPTS.items():
            print(f"-- {port.__name__.rpartition('.')[2]}")
            model = sys.argv[1] if sys.argv[1:] else script
            if port is human_in_the_loop:
                await human_in_the_loop.main(model, f"sqlite:///{folder}/agents.db")
            else:
                await port.main(model)


if __name__ == "__main__":
    asyncio.run(main())
    for name in lines.SNIPPETS:
        print(f"-- {name}")
        runpy.run_module(f"examples.apps.ports.{name.replace('/', '.')}", run_name="__main__")
