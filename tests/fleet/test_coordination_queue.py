"""Jobs are done at least once, by whoever is alive, and die after too many deliveries."""

import asyncio

from redis.asyncio import Redis

from ziggurat.fleet import RedisJob, RedisQueue


async def test_a_job_that_fails_too_often_is_a_dead_letter(client: Redis) -> None:
    queue = RedisQueue(client, "jobs", lease=0.02, max_deliveries=3)
    put = await queue.put({"to": "ann"})
    seen: list[RedisJob] = []

    async def fail(job: RedisJob) -> None:
        seen.append(job)
        raise ValueError("no")

    worker = asyncio.create_task(queue.work(fail))
    async with asyncio.timeout(20):
        while not (dead := await queue.dead_letters()):  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.01)
    worker.cancel()
    assert [(job.id, job.value, job.deliveries) for job in seen] == [(put, {"to": "ann"}, n) for n in (1, 2, 3)]
    assert [(job.id, job.value) for job in dead] == [(put, {"to": "ann"})]
    assert await queue.size() == 0


async def test_a_long_job_is_kept_by_its_consumer(client: Redis, other: Redis) -> None:
    one, two = RedisQueue(client, "jobs", lease=0.1), RedisQueue(other, "jobs", lease=0.1)
    await one.put("long")
    started, go, handled = asyncio.Event(), asyncio.Event(), []

    async def handle(job: RedisJob) -> None:
        handled.append(job.deliveries)
        started.set()
        await go.wait()

    workers = [asyncio.create_task(one.work(handle))]
    await started.wait()
    workers.append(asyncio.create_task(two.work(handle)))
    await two.take(wait=0.4)
    assert handled == [1]
    go.set()
    async with asyncio.timeout(20):
        while await one.size():  # noqa: ASYNC110 - another process works
            await asyncio.sleep(0.01)
    for worker in workers:
        worker.cancel()
