"""The routes of providers' APIs: any client of OpenAI or Anthropic can talk to an agent, whose name is the model's."""

from functools import partial

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ziggurat.core.clock import SYSTEM_CLOCK
from ziggurat.core.codec import encode
from ziggurat.core.errors import ConfigurationError, ZigguratError
from ziggurat.messages.model import ModelRequest
from ziggurat.messages.usage import estimate_tokens
from ziggurat.serve.openai.answers import NotAnswered
from ziggurat.serve.openai.conversations import Conversation, ConversationRequest
from ziggurat.serve.openai.replies import LiveResponses, Reply, ResponseStream, error_reply
from ziggurat.serve.openai.stored_responses import answer_stored, page_of, response_request
from ziggurat.serve.requests import check_id
from ziggurat.serve.routing import route
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.reading import read_request
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.types import Json, ReplyHead, Wire
from ziggurat.wires.writer import WRITERS

_NO_THREADS = {
    "type": "error",
    "error": {
        "type": "invalid_request_error",
        "message": "there are no threads here: send the whole conversation",
        "details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]},
    },
}
"""With this answer, the tool runner of Anthropic's SDK sends whole conversations."""


class _ProviderRoutes:
    def __init__(self, agents: ServedAgents, live: LiveResponses) -> None:
        self._agents = agents
        self._live = live

    async def list_models(self, request: Request) -> Response:
        models = [_model(name) for name in self._agents.agents]
        listed = {"object": "list", "data": models, "has_more": False}
        return Response(encode(listed | {"first_id": models[0]["id"], "last_id": models[-1]["id"]}), 200)

    async def read_model(self, request: Request) -> Response:
        try:
            return Response(encode(_model(self._agents.agent(request.path_params["name"]).name)), 200)
        except ZigguratError as error:
            return error_reply("chat", error)

    async def count_tokens(self, request: Request, wire: Wire) -> Response:
        """Estimate the tokens of a request: a quarter of its characters."""
        try:
            _, content = read_request(await request.body(), wire, counting=True)
        except ValueError as error:
            return error_reply(wire, error)
        tools = sum(estimate_tokens(encode(spec).decode()) for spec in content.tools)
        tokens = content.messages.size() // 4 + estimate_tokens(content.instructions or "") + tools
        kind = {"object": "response.input_tokens"} if wire == "responses" else {}
        return Response(encode(kind | {"input_tokens": max(1, tokens)}), 200)

    async def answer(self, request: Request, wire: Wire) -> Reply | ResponseStream | Response:
        try:
            self._agents.admit()
            data = await request.body()
            body, content = read_request(data, wire)
            if wire == "messages" and body.get("thread") is not None:
                return Response(encode(_NO_THREADS), 400, {"x-should-retry": "false"}, "application/json")
            _check(body, wire)
            self._agents.agent(body["model"])
        except (ValueError, ZigguratError) as error:
            return error_reply(wire, error)
        try:
            return await self._reply(request, wire, body, content)
        except (ValueError, ZigguratError, NotAnswered) as error:
            return error_reply(wire, error, code="previous_response_not_found")

    async def _reply(
        self, request: Request, wire: Wire, body: Json, content: ModelRequest
    ) -> Reply | ResponseStream | Response:
        asking = ConversationRequest(body["model"], content, page=page_of(request))
        if wire == "responses":
            asking = await response_request(body, asking, self._agents)
        key = request.headers.get("idempotency-key")
        asking = replace(asking, run_id=None if key is None else check_id(key))
        conversation = await Conversation.of(self._agents, asking)
        own_id = conversation.id.suffix if wire == "responses" else conversation.id.run_id  # only responses go on
        head = ReplyHead(own_id, body["model"], body, int(SYSTEM_CLOCK.now()))
        streams = body.get("stream") is True
        if wire == "responses" and body.get("background") is True:
            return await self._begin(conversation, ResponsesWriter(head), stream=streams)
        stores = body.get("store") is not False if wire == "responses" else body.get("store") is True
        return Reply(conversation, wire, WRITERS[wire](head), self._agents.closing, stream=streams, stores=stores)

    async def _begin(
        self, conversation: Conversation, writer: ResponsesWriter, *, stream: bool
    ) -> ResponseStream | Response:
        live = await self._live.start(conversation, writer)
        if stream:
            return ResponseStream(live.follow(-1), self._agents.closing)
        return Response(encode(writer.without_answer("in_progress")), 200, media_type="application/json")


def _check(body: Json, wire: Wire) -> None:
    if body.get("n") not in (None, 1):
        raise ConfigurationError(f"n is 1: an agent gives one answer, got {body['n']!r:.50}")
    kinds = ("custom", None) if wire == "messages" else ("function",)
    for tool in body.get("tools") or ():
        if not (isinstance(tool, dict) and tool.get("type") in kinds):
            raise ConfigurationError("tools are functions that the client calls; agents have no other tools of an API")


def _model(name: str) -> Json:
    model = {"id": name, "object": "model", "created": 0, "owned_by": "ziggurat"}
    return model | {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}


def provider_routes(agents: ServedAgents) -> list[Route]:
    live = LiveResponses()
    own, stored = _ProviderRoutes(agents, live), partial(answer_stored, agents=agents, live=live)
    return [
        route("GET", "/v1/models", own.list_models),
        route("GET", "/v1/models/{name}", own.read_model),
        route("POST", "/v1/messages/count_tokens", partial(own.count_tokens, wire="messages")),
        route("POST", "/v1/messages", partial(own.answer, wire="messages")),
        route("POST", "/v1/chat/completions", partial(own.answer, wire="chat")),
        route("POST", "/v1/responses", partial(own.answer, wire="responses")),
        route("POST", "/v1/responses/input_tokens", partial(own.count_tokens, wire="responses")),
        route("GET", "/v1/responses/{id}", stored),
        route("DELETE", "/v1/responses/{id}", stored),
        route("POST", "/v1/responses/{id}/cancel", stored),
    ]
