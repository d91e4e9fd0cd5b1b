"""An order: paid once, and shipped when a person has approved it, days later and in another process."""

import asyncio

from msgspec import Struct

from ziggurat.agents import Answer
from ziggurat.flows import Flow, ask, flow, step
from ziggurat.stores import LocalLogs


class Order(Struct):
    customer: str
    total: int


@step(effect="once")
async def charge(customer: str, total: int) -> str:
    print(f"charged {customer}")
    return f"payment of {total}"


@step
async def ship(customer: str) -> str:
    return f"parcel for {customer}"


def orders(store: LocalLogs) -> Flow[Order, str]:
    @flow(store=store)
    async def order(order: Order) -> str:
        """Take an order."""
        payment = await charge(order.customer, order.total)
        if not await ask(f"Ship to {order.customer} ({payment})?", bool, expires=7 * 86400, default=False):
            return "not shipped"
        return await ship(order.customer)

    return order


async def main() -> None:
    store = LocalLogs()
    run = await orders(store).run(Order("Ada", 30), run_id="order-17")
    print(run.pending[0].reason)

    elsewhere = LocalLogs(shared=store)  # JSON lines, as another process would read them
    run = await orders(elsewhere).resume("order-17", {item.id: Answer(True) for item in run.pending})
    print(run.output)


if __name__ == "__main__":
    asyncio.run(main())
