"""Models of teams' members: they answer by what they are shown, so that another process can make them again."""

from collections.abc import Callable

from ziggurat import Context, Message, ModelRequest, ModelResponse, ToolCall, Usage
from ziggurat.messages import assistant

Reply = str | ToolCall | list[ToolCall] | Message | Exception


class Answering:
    """A model that gives the reply of a function of the request; what it was asked is in `asked`."""

    def __init__(self, reply: Callable[[ModelRequest], Reply] | Reply, name: str = "answering") -> None:
        self.reply = reply
        self.asked: list[ModelRequest] = []
        self.__name__ = name

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Answer; each call costs 10 tokens in and 1 out."""
        self.asked.append(request)
        reply = self.reply(request) if callable(self.reply) else self.reply
        if isinstance(reply, Exception):
            raise reply
        if not isinstance(reply, Message):
            reply = assistant(*reply) if isinstance(reply, list) else assistant(reply)
        return ModelResponse(reply, "tool_calls" if reply.tool_calls else "stop", Usage(10, 1, requests=1))

    @property
    def shown(self) -> list[str]:
        """The texts that it was shown when it was asked last."""
        return [message.text for message in self.asked[-1].messages]


def after_tools(answer: str, *calls: ToolCall) -> Callable[[ModelRequest], Reply]:
    """Reply with calls, and when their results are there with an answer."""
    return lambda request: answer if request.messages[-1].role == "tool" else list(calls)
