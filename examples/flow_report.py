"""A nightly report: one run per night, whoever starts it and however often."""

import asyncio
from datetime import date

from ziggurat.flows import flow, settled, step
from ziggurat.stores import LocalLogs


@step(effect="none")
async def sales(shop: str, day: date) -> int:
    if shop == "Kish":
        raise ConnectionError("the shop is closed")
    return 10 * len(shop)


@step
async def send(text: str) -> None:
    print(f"sent: {text}")


@flow(store=LocalLogs())
async def report(day: date) -> str:
    """Send the sales of a day."""
    results = await settled(*(sales(shop, day) for shop in ("Ur", "Uruk", "Kish")))
    known = [each for each in results if isinstance(each, int)]
    text = f"{day}: {sum(known)} in {len(known)} of {len(results)} shops"
    await send(text)
    return text


async def main() -> None:
    night = date(2026, 11, 22)
    for _ in range(2):  # the second time it is answered from the record
        run = await report.run(night, run_id=f"report-{night}")
        print(run.output, f"({run.steps} steps)")


if __name__ == "__main__":
    asyncio.run(main())
