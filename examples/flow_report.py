"""A nightly report: one run per night, whoever starts it and however often."""

import asyncio
from datetime import UTC, datetime, timedelta

from ziggurat.agents import Environment
from ziggurat.flows import every, flow, schedule, settled, step
from ziggurat.stores import InMemoryStore
from ziggurat.testing import HandClock


@step(effect="none")
async def sales(shop: str, day: str) -> int:
    if shop == "Kish":
        raise ConnectionError("the shop is closed")
    return 10 * len(shop)


@step
async def publish(text: str) -> None:
    print(text)


@flow(store=InMemoryStore())
async def report(day: str) -> str:
    """Publish the sales of a day."""
    results = await settled(*(sales(shop, day) for shop in ("Ur", "Uruk", "Kish")))
    known = [each for each in results if isinstance(each, int)]
    await publish(text := f"{day}: {sum(known)} in {len(known)} of {len(results)} shops")
    return text


def day_of(tick: datetime) -> str:
    return f"{tick:%Y-%m-%d}"


async def main() -> None:
    night = datetime(2026, 11, 22, 21, tzinfo=UTC)
    clock = HandClock(night.timestamp())  # moved by hand here
    nightly = schedule(report, every(days=1, start=night), input=day_of)
    async with report.worker(schedules=[nightly], environment=Environment(clock=clock)):
        await clock.advance(2 * 86400)
        await report.attach(nightly.run_id(night + timedelta(days=2))).result()
    run = await report.run("2026-11-23", run_id="report-20261123T210000Z")
    print(run.output, "(again from its record)" if run.replayed else "")


if __name__ == "__main__":
    asyncio.run(main())
