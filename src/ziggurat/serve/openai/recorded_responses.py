"""RecordedResponse: a response of OpenAI's API that was given before, read from the record of its run."""

from typing import Any

from msgspec import Struct

from ziggurat.agents.runnable import Runnable
from ziggurat.core.journal import LocalJournal
from ziggurat.core.store import LogInfo
from ziggurat.serve.openai.answers import NotAnswered
from ziggurat.serve.openai.recorded_speech import say_recorded
from ziggurat.serve.openai.response_ids import ResponseId
from ziggurat.serve.served import ServedAgents
from ziggurat.wires.responses import ResponsesWriter
from ziggurat.wires.server_items import ReplyParts, ReplyPiece
from ziggurat.wires.types import Json, ReplyHead


class RecordedResponse(Struct, frozen=True):
    """A response on record."""

    id: ResponseId
    agent: Runnable[Any]
    info: LogInfo

    @classmethod
    async def find(cls, agents: ServedAgents, response_id: ResponseId) -> "RecordedResponse":
        """Return the response with an id."""
        return cls(response_id, *await agents.agent_of(response_id.run_id))

    def writer(self) -> ResponsesWriter:
        """Return what writes it."""
        return ResponsesWriter(ReplyHead(self.id.suffix, self.info.agent, {}, int(self.info.created)))

    async def body(self, page: str) -> Json:
        """Return it as it is now."""
        if self.info.status == "running":
            driven = (await self.agent.attach(self.id.run_id).status()).driven
            return self.writer().without_answer("in_progress" if driven else "queued")
        if self.info.status == "Cancelled" and await self._was_interrupted():
            return self.writer().without_answer("queued")
        whole = ReplyParts()

        async def say(piece: ReplyPiece) -> None:
            whole.push(piece)

        try:
            answered = await say_recorded(self.agent, self.id, say, page)
        except NotAnswered as error:
            status = "cancelled" if self.info.status == "Cancelled" else "failed"
            return self.writer().without_answer(status, str(error))
        return self.writer().plain(whole.parts(), answered.finish, answered.usage)

    async def _was_interrupted(self) -> bool:
        """Return whether nobody cancelled the run, but its process ended."""
        last = LocalJournal.load(await self.agent.record(self.id.run_id)).last_end
        return last is not None and last.interrupted
