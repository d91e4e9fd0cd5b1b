"""What the type checker must infer of flows and steps; read by mypy, never run."""

from typing import Any, assert_type

from msgspec import Struct

from ziggurat import AgentRun, Context
from ziggurat.flows import Flow, event, first, flow, gather, quorum, settled, step
from ziggurat.layers import retry


class Order(Struct):
    total: int


@step
async def double(number: int, *, times: int = 1) -> int:
    return 2 * number * times


@step(effect="once", layers=[retry(attempts=2)], context=True)
async def pay(ctx: Context, total: int) -> str:
    return ctx.idempotency_key


@step
async def anything(value: Any) -> None: ...


@flow
async def plain(order: Order) -> int:
    assert_type(await double(order.total, times=2), int)
    assert_type(await pay(order.total), str)
    await anything(3)
    await double("3")  # type: ignore[arg-type]
    await pay()  # type: ignore[call-arg]
    return order.total


@flow(store="memory:")
async def with_context(ctx: Context, order: Order) -> list[str]:
    return [ctx.path]


@flow
async def report() -> str:
    return ""


async def runs() -> None:
    assert_type(plain, Flow[Order, int])
    assert_type(with_context, Flow[Order, list[str]])
    assert_type(await plain.run(Order(3), run_id="a"), AgentRun[int])
    assert_type((await with_context.run(Order(3))).output, list[str])
    assert_type(await report.run(), AgentRun[str])
    assert_type(await plain.fork("a", at=1, prompt=Order(3)), AgentRun[int])
    await plain.fork("a", at=1, prompt=3)  # type: ignore[arg-type]
    await plain.run(3)  # type: ignore[arg-type]
    await plain.run(Order(3), runid="a")  # type: ignore[call-arg]


async def groups() -> None:
    assert_type(await gather(double(1), pay(2)), tuple[int, str])
    assert_type(
        await gather(report.run(), plain.run(Order(3)), event("paid", int)), tuple[AgentRun[str], AgentRun[int], int]
    )
    assert_type(await gather(*(double(each) for each in range(3)), limit=2), tuple[int, ...])
    assert_type(await gather(), tuple[()])
    assert_type(await first(double(1), double(2)), int)
    assert_type(await settled(double(1)), tuple[int | Exception, ...])
    assert_type(await quorum(1, double(1)), tuple[int | None, ...])
