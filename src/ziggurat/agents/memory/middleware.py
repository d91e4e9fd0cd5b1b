"""Remembering: the middleware that gives agents a memory."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Annotated

from msgspec import Meta
from msgspec.structs import replace

from ziggurat.agents.memory.active import ACTIVE_MEMORY, ActiveMemory, Note, StoredNote, keep
from ziggurat.agents.memory.policies import Policy
from ziggurat.agents.memory.showing import fitting, memories_in, recalled_message
from ziggurat.calls.agent_call import AGENT_CALL
from ziggurat.calls.hooks import MIDDLEWARE
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ServiceError, StoreError, described
from ziggurat.core.path import check_new_name
from ziggurat.core.service import Service
from ziggurat.core.settings import NonNegativeInt, PositiveFloat, PositiveInt, checked
from ziggurat.databases.writer import closed_when_unused
from ziggurat.memory.scoring import Score
from ziggurat.memory.search import BOUNDS, Bounds, Recalled
from ziggurat.memory.store import MemoryStore, open_memory
from ziggurat.memory.vectorizing import warn
from ziggurat.memory.words import is_polite, query_words
from ziggurat.messages.agent import AgentRequest, AgentRun
from ziggurat.messages.events import MemoryRecalled, MemoryStored
from ziggurat.messages.message import MEMORY, Message
from ziggurat.messages.middleware import Middleware
from ziggurat.messages.model import Embedder

Owner = str | Callable[[Context], str]


class Remembering(Middleware):
    """Recalls relevant memories into the prompt, and after the run remembers what a policy chooses.

    ::

        Agent("demo", tools=memory_tools(), middleware=[Remembering("sqlite:///agents.db", "ann")])

    Recalled memories are placed before the question as a message of their own, marked as data, with their taint, and
    recorded with the request. If a memory cannot be read or written, the run continues without it, with a `Warned`
    event. Agents below have a memory of their own, ``owner/agent``, unless `share` names them.

    Args:
        store: Where memories are kept: a URL for `open_memory`, or a store.
        owner: Whose memory it is, such as a user's name; or a function of the context, for one agent with many users.
        limit: The largest number of memories recalled into a prompt; 0 for none.
        tokens: The largest number of tokens they may have together, heading included, by `estimate_tokens`.
        bounds: How relevant a memory must be; other embedders than the local one need others.
        score: Orders recalled memories; by default the store's own order.
        embedder: Makes vectors, so that meaning is compared and not only words.
        remember: Chooses what is remembered of a finished run; by default only what the tool `remember` is given.
        share: The names of agents below that read and write this same memory with the tools.
        capacity: How many episodes, and how many facts, an owner may have in use; beyond it the least important are
            archived.
        max_age: Episodes older than this many seconds are not recalled.
    """

    @checked
    def __init__(
        self,
        store: Annotated[str | MemoryStore, Meta(description="such as 'sqlite:///agents.db'")],
        owner: Owner,
        *,
        limit: NonNegativeInt = 3,
        tokens: NonNegativeInt = 500,
        bounds: Bounds = BOUNDS,
        score: Annotated[Score | None, Meta(description="such as recency()")] = None,
        embedder: Annotated[Embedder | None, Meta(description="such as resolve_embedder('local')")] = None,
        remember: Annotated[Policy | None, Meta(description="such as everything_said")] = None,
        share: Collection[str] = (),
        capacity: PositiveInt | None = None,
        max_age: PositiveFloat | None = None,
    ) -> None:
        if not callable(owner):
            _check_owner(owner)
        with closed_when_unused():
            self.store: MemoryStore = open_memory(store)
        self.owner = owner
        self.limit = limit
        self.tokens = tokens
        self.policy = remember
        self.share: frozenset[str] = frozenset(share)
        self._memory = ActiveMemory(self.store, "", self, bounds, embedder, score, capacity, max_age)

    async def before_agent(self, request: AgentRequest, ctx: Context) -> AgentRequest | None:
        messages = [message for message in request.messages if message.origin != MEMORY]
        place = _question(messages)
        if place is None or not self.limit or not self._is_nearest(ctx):
            return None
        recalled = await self._recall(messages[place].text, ctx)
        if recalled is None and len(messages) == len(request.messages):
            return None
        if recalled is not None:
            messages.insert(place, recalled_message(recalled, self._memory.bounds))
            ctx.state(self, list[Recalled]).extend(recalled)
        return AgentRequest(tuple(messages))

    async def wrap_agent(self, request: AgentRequest, ctx: Context, agent: Service[AgentRequest, AgentRun]) -> AgentRun:
        if not self._is_nearest(ctx):
            return await agent(request, ctx)
        mind = self._mind(ctx)
        if ctx.listens(MemoryRecalled):
            recalled = ctx.state(self, list[Recalled])
            ids = tuple(each.record.id for each in recalled)
            texts = memories_in(request.messages)
            if texts:
                await ctx.emit(MemoryRecalled(ctx.path, mind.owner, texts, ids, replayed=not recalled))
        return await agent(request, ctx.within(ACTIVE_MEMORY, mind))

    async def after_agent(self, run: AgentRun, ctx: Context) -> AgentRun | None:
        if self.policy is None or not self._is_nearest(ctx):
            return None
        mind = self._mind(ctx)
        if mind is ctx.scope.get(ACTIVE_MEMORY):  # a shared memory: the outer agent's policy decides
            return None
        stored: list[StoredNote] = []
        try:
            noted = self.policy(run, ctx.within(ACTIVE_MEMORY, mind))
            stored = await keep(mind, _notes(await noted if isinstance(noted, Awaitable) else noted), ctx)
        except (ServiceError, StoreError, OSError) as error:
            await warn(f"not all of this run is remembered: {described(error)}", ctx)
        if stored and ctx.listens(MemoryStored):
            texts = tuple(each.record.content for each in stored)
            await ctx.emit(MemoryStored(ctx.path, mind.owner, texts, tuple(each.record.id for each in stored)))
        return None

    async def _recall(self, query: str, ctx: Context) -> list[Recalled] | None:
        if is_polite(query) or not query_words(query):  # every memory is as near as any other
            return None
        try:
            memories = await self._mind(ctx).open(ctx).recall(query, limit=self.limit)
        except (ServiceError, StoreError, OSError) as error:
            await warn(f"nothing is recalled: {described(error)}", ctx)
            return None
        return (fitting(memories, self.tokens, self._memory.bounds) or None) if memories else []

    def _mind(self, ctx: Context) -> ActiveMemory:
        """Return the memory of the agent that begins here; an agent below one with this memory gets its own."""
        outer = ctx.scope.get(ACTIVE_MEMORY)
        if outer is None or outer.by is not self:
            owner = self.owner if isinstance(self.owner, str) else self.owner(ctx)
            _check_owner(owner)
            return replace(self._memory, owner=owner)
        name = ctx.scope[AGENT_CALL].agent
        return outer if name in self.share else replace(outer, owner=f"{outer.owner}/{name}")

    def _is_nearest(self, ctx: Context) -> bool:
        chain = ctx.scope[MIDDLEWARE]
        return [each for each in chain.middlewares if isinstance(each, Remembering)][-1] is self


def _check_owner(owner: object) -> None:
    if not isinstance(owner, str) or not owner.strip() or "/" in owner:
        raise ConfigurationError(
            f"Remembering(): owner is a name without '/', or a function of the context that returns one; got {owner!r}"
        )
    check_new_name(owner, "the owner of a memory")


def _notes(noted: object) -> list[Note]:
    notes: list[Note] = []
    for each in noted if isinstance(noted, Iterable) and not isinstance(noted, str) else [noted]:
        if not isinstance(each, Note):
            raise ConfigurationError(f"a policy for Remembering returns Notes, as [Note(content=...)]; got {each!r}")
        notes.append(each)
    return notes


def _question(messages: Sequence[Message]) -> int | None:
    places = [at for at, each in enumerate(messages) if each.role == "user" and each.origin is None and each.text]
    return places[-1] if places else None
