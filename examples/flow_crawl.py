"""A crawl of 200 pages, ten at a time: after a crash, only what is missing is fetched."""

import asyncio

from ziggurat.flows import flow, gather, step
from ziggurat.layers import retry
from ziggurat.stores import InMemoryStore

fetched: list[int] = []
down = {117}


@step(effect="none", layers=[retry(attempts=2, base=0)])
async def fetch(page: int) -> str:
    if page in down:
        raise ValueError(f"page {page} is damaged")
    fetched.append(page)
    return "word " * page


async def words(page: int) -> int:
    return len((await fetch(page)).split())


@flow(store=InMemoryStore())
async def crawl(pages: int) -> int:
    """Count the words of many pages."""
    return sum(await gather(*(words(page) for page in range(pages)), limit=10))


async def main() -> None:
    run = await crawl.run(200, run_id="crawl-1")
    print(run.error.partition(" (")[0] if run.error else run.output)
    before = len(fetched)
    down.clear()
    run = await crawl.resume("crawl-1")
    print(f"{run.output} words; fetched twice: {len(fetched) - len(set(fetched))}; {before} were there already")


if __name__ == "__main__":
    asyncio.run(main())
