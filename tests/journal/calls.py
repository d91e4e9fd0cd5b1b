"""Scripted services, and functions that call them below a journal."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from ziggurat import Context, Event
from ziggurat.core import root
from ziggurat.core.context import JOURNAL
from ziggurat.journal import LocalJournal


class Answer(Struct, frozen=True):
    text: str
    usage: int | None = None


class Calls:
    """A scripted service: it returns values, raises errors, and stores its requests."""

    def __init__(self, *script: object) -> None:
        self.script = list(script)
        self.asked: list[object] = []

    async def __call__(self, request: object, ctx: Context) -> Any:
        self.asked.append(request)
        await asyncio.sleep(0)
        answer = self.script.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def beneath(journal: LocalJournal, heard: Callable[[Event], None] | None = None) -> Context:
    ctx = root().within(JOURNAL, journal)
    return ctx.heard_by(heard) if heard else ctx


def ask(ctx: Context, calls: Calls, request: object = "q", *, name: str = "model", returns: Any = str) -> Any:
    return asyncio.run(asked(ctx, calls, request, name, returns))


async def asked(ctx: Context, calls: Calls, request: object, name: str, returns: Any) -> Any:
    return await ctx.at("call").once(name, request, calls, returns=returns)


def tries(ctx: Context, calls: Calls, times: int, returns: Any = str) -> list[object]:
    """Call `times` times, as a retry around the call would; return errors as their text."""

    async def main() -> list[object]:
        seen: list[object] = []
        for _ in range(times):
            try:
                seen.append(await ctx.at("call").once("model", "q", calls, returns=returns))
            except Exception as error:
                seen.append(f"{type(error).__name__}: {error}")
        return seen

    return asyncio.run(main())


def resumed(journal: LocalJournal, **settings: Any) -> LocalJournal:
    return LocalJournal.load(journal.dump(), **settings)


def copied(journal: LocalJournal) -> LocalJournal:
    """Return a journal of the same record in this process, as a run without a store is continued with."""
    copy = LocalJournal()
    copy.take_over(journal.entries)
    return copy
