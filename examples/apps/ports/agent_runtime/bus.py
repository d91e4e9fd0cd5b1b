"""Two agents send messages to each other: to one by name, and to all."""

import asyncio

from ziggurat.runtime import Bus, Specific


async def main() -> None:
    bus = Bus(256)
    planner = bus.subscribe("planner", role="planner")
    executor = bus.subscribe("executor", role="executor")
    planner.send("Write the report", Specific("executor"))
    print("executor:", await executor.receive())
    executor.send("The report is written")
    print("planner:", await planner.receive())


if __name__ == "__main__":
    asyncio.run(main())
