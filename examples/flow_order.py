"""An order: it waits for its payment, then for a person's approval, days later and in other processes."""

import asyncio

from msgspec import Struct

from ziggurat.agents import Answer
from ziggurat.flows import Flow, ask, event, flow, send, step
from ziggurat.stores import InMemoryStore


class Order(Struct):
    customer: str
    total: int


@step(effect="once")
async def ship(customer: str) -> str:
    return f"parcel for {customer}"


def orders(store: InMemoryStore) -> Flow[Order, str]:
    @flow(store=store)
    async def order(order: Order) -> str:
        """Take an order."""
        paid = await event("paid", int, timeout=7 * 86400)  # raises Timeout after a week
        if not await ask(f"Ship to {order.customer} for {paid}?", bool, expires=7 * 86400, default=False):
            return "not shipped"
        return await ship(order.customer)

    return order


async def main() -> None:
    store = InMemoryStore()
    run = await orders(store).run(Order("Ada", 30), run_id="order-17")
    print("waits", run.pending[0].reason)

    elsewhere = InMemoryStore(shared=store)  # JSON lines, as another process would read them
    for _ in range(2):  # the second time it is known already
        print(await send("order-17", "paid", 30, store=elsewhere, key="payment-9"))
    run = await orders(elsewhere).resume("order-17")
    print(run.pending[0].reason)
    run = await orders(elsewhere).resume("order-17", {item.id: Answer(True) for item in run.pending})
    print(run.output)


if __name__ == "__main__":
    asyncio.run(main())
