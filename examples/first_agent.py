"""A first agent: two tools, the demo model, no key. Needs: pip install 'ziggurat[local]'.

Run it with your own question:  python examples/first_agent.py "What is 12 * (7 + 5)?"
"""

import sys

from ziggurat import Agent
from ziggurat.tools import calculator

FORECASTS = {"Rome": "sunny, 24 degrees", "Oslo": "snow, -3 degrees"}


def weather(city: str) -> str:
    """Forecast for a city.

    Args:
        city: Name of the city.
    """
    return FORECASTS.get(city, "rain, 14 degrees")


def main() -> None:
    agent = Agent("demo", tools=[weather, calculator], instructions="You are brief.")
    for question in sys.argv[1:] or ["What is 12 * (7 + 5)?", "What is the weather in Oslo?"]:
        run = agent.run_sync(question)
        print(f"{question}  {', '.join(run.actions)}")
        print(f"  {run.text}")


if __name__ == "__main__":
    main()
