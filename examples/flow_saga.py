"""A saga: a trip is booked in steps, and what was booked is cancelled if a later step fails."""

import asyncio

from ziggurat.flows import flow, step
from ziggurat.stores import InMemoryStore


@step(effect="once")
async def book(what: str) -> str:
    if what == "car":
        raise ValueError("no cars left")
    print(f"booked the {what}")
    return f"{what}-1"


@step
async def cancel(booking: str) -> None:
    print(f"cancelled {booking}")


@flow(store=InMemoryStore())
async def trip(wanted: list[str]) -> list[str]:
    """Book everything, or nothing."""
    bookings: list[str] = []
    try:
        for what in wanted:
            bookings.append(await book(what))
    except Exception:
        for booking in reversed(bookings):
            await cancel(booking)
        raise
    return bookings


async def main() -> None:
    run = await trip.run(["flight", "hotel", "car"], run_id="trip-1")
    print((run.error or "").partition(" (")[0])
    again = await trip.resume("trip-1")  # the failure was handled: it stands, and nothing is done twice
    print((again.error or "").partition(" (")[0] == (run.error or "").partition(" (")[0])


if __name__ == "__main__":
    asyncio.run(main())
