"""A nightly report: one run per night, whoever starts it and however often."""

import asyncio
from datetime import UTC, datetime

from ziggurat.agents import Environment
from ziggurat.flows import every, flow, schedule, settled, step
from ziggurat.stores import LocalLogs
from ziggurat.testing import HandClock


@step(effect="none")
async def sales(shop: str, day: str) -> int:
    if shop == "Kish":
        raise ConnectionError("the shop is closed")
    return 10 * len(shop)


@step
async def publish(text: str) -> None:
    print(text)


@flow(store=LocalLogs())
async def report(day: str) -> str:
    """Publish the sales of a day."""
    results = await settled(*(sales(shop, day) for shop in ("Ur", "Uruk", "Kish")))
    known = [each for each in results if isinstance(each, int)]
    text = f"{day}: {sum(known)} in {len(known)} of {len(results)} shops"
    await publish(text)
    return text


async def main() -> None:
    night = datetime(2026, 11, 22, 21, tzinfo=UTC)
    clock = HandClock(night.timestamp())  # moved by hand here; without it, the time of the machine
    nightly = schedule(report, every(days=1, start=night), input=lambda tick: f"{tick:%Y-%m-%d}")
    running = asyncio.create_task(nightly.run(environment=Environment(clock=clock)))
    await clock.advance(2 * 86400)
    running.cancel()
    run = await report.run("2026-11-23", run_id=nightly.run_id(datetime(2026, 11, 23, 21, tzinfo=UTC)))
    print(run.output, "(again from its record)" if run.replayed else "")


if __name__ == "__main__":
    asyncio.run(main())
