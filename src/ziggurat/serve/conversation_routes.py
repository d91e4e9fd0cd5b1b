"""Conversations of OpenAI's API: each is a session, to which the requests that name it add messages and answers."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core.clock import new_id
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, RunNotFound, ZigguratError
from ziggurat.core.store import LogInfo, Store, session_log
from ziggurat.messages.message import Message
from ziggurat.serve.ids import check_id
from ziggurat.serve.input_items import PageSettings, item_page, items_of_messages, page_settings
from ziggurat.serve.replies import error_reply
from ziggurat.serve.served import ServedAgents
from ziggurat.stores.session.session import Session
from ziggurat.wires.reading import read_request
from ziggurat.wires.types import Json

_MOST = 100
"""Items that are added at a time, and shown then."""


class _ConversationRoutes:
    def __init__(self, agents: ServedAgents) -> None:
        self._agents = agents

    async def create(self, request: Request) -> Json:
        body = await _body(request)
        stores = self._agents.stores()
        if len(stores) > 1:
            raise ConfigurationError("the agents have different stores: use an id of your own, which needs no creation")
        name = f"conv_{new_id()}"
        session = Session(name, stores[0])
        await session.clear()  # an empty session is on record from here on
        await session.add_items(_messages(body))
        return _conversation(name, await self._find(name))

    async def read(self, request: Request) -> Json:
        return _conversation(_id(request), await self._find(_id(request)))

    async def delete(self, request: Request) -> Json:
        name = _id(request)
        store, _ = await self._find(name)
        await store.delete(session_log(name))
        return {"id": name, "object": "conversation.deleted", "deleted": True}

    async def list_items(self, request: Request) -> Json:
        return item_page(await self._items(_id(request)), page_settings(request.query_params))

    async def read_item(self, request: Request) -> Json:
        for item in await self._items(_id(request)):
            if item["id"] == request.path_params["item"]:
                return item
        raise RunNotFound(f"the conversation has no item {request.path_params['item']!r:.150}")

    async def add_items(self, request: Request) -> Json:
        name, messages = _id(request), _messages(await _body(request))
        store, _ = await self._find(name)
        before = len(await self._items(name))
        await Session(name, store).add_items(messages)
        return item_page((await self._items(name))[before:], PageSettings(_MOST, "asc", None))

    async def _items(self, name: str) -> list[Json]:
        store, _ = await self._find(name)
        return list(items_of_messages(await Session(name, store).history(), name, self._agents.agents.values()))

    async def _find(self, name: str) -> tuple[Store, LogInfo]:
        for store in self._agents.stores():
            info = await store.find(session_log(name))
            if info is not None:
                return store, info
        raise RunNotFound(f"there is no conversation {name!r:.150}")


def _conversation(name: str, place: tuple[Store, LogInfo]) -> Json:
    return {"id": name, "object": "conversation", "created_at": int(place[1].created), "metadata": {}}


def _id(request: Request) -> str:
    return check_id(str(request.path_params["id"]))


async def _body(request: Request) -> Json:
    try:
        body = msgspec.json.decode(await request.body() or b"{}", type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ConfigurationError(f"the body is not a JSON object: {error}") from error
    if body.get("metadata"):
        raise ConfigurationError("metadata: a conversation has none here; responses have")
    return body


def _messages(body: Json) -> list[Message]:
    """Return the messages of the items in a body."""
    _, content = read_request(encode({"model": "", "input": body.get("items") or []}), "responses")
    if content.instructions:
        raise ConfigurationError("items: a conversation has no system messages here; send instructions")
    if len(content.messages) > _MOST:
        raise ConfigurationError(f"items: at most {_MOST} at a time, got {len(content.messages)}")
    return list(content.messages)


def conversation_routes(agents: ServedAgents) -> list[Route]:
    """Return the routes for the sessions of some agents."""
    own, path = _ConversationRoutes(agents), "/v1/conversations"
    return [
        _route("POST", path, own.create),
        _route("GET", f"{path}/{{id}}", own.read),
        _route("DELETE", f"{path}/{{id}}", own.delete),
        _route("GET", f"{path}/{{id}}/items", own.list_items),
        _route("POST", f"{path}/{{id}}/items", own.add_items),
        _route("GET", f"{path}/{{id}}/items/{{item}}", own.read_item),
    ]


def _route(method: str, path: str, handler: Callable[[Request], Awaitable[Json]]) -> Route:
    async def answer(request: Request) -> Response:
        try:
            return Response(encode(await handler(request)), 200, media_type="application/json")
        except (ValueError, ZigguratError) as error:
            return error_reply("responses", error, code="conversation_not_found")

    return Route(path, answer, methods=[method], name=f"{method} {path}")
