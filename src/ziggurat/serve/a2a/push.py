"""Push notifications: changes of tasks, sent to addresses that clients name, public ones only."""

import asyncio
from contextlib import aclosing

from msgspec.structs import replace

from ziggurat.core.clock import SYSTEM_CLOCK, new_id
from ziggurat.core.codec import encode
from ziggurat.core.context import root
from ziggurat.core.errors import Denied, ServiceError, Timeout
from ziggurat.core.log import logger
from ziggurat.http.fetcher import Fetcher
from ziggurat.serve.a2a.tasks import Updates
from ziggurat.serve.narration import ToldRun
from ziggurat.serve.requests import check_id
from ziggurat.serve.sse import Closing
from ziggurat.wires import a2a

_MOST_OF_TASK = 10
_MOST = 1_000
_TRIES = 4
_PAUSE = 1.0


class PushNotifications:
    """Keeps where clients want to be told of changes, in this process, and tells them."""

    def __init__(self, fetcher: Fetcher | None, closing: Closing) -> None:
        self.fetcher = fetcher
        self._configs: dict[str, dict[str, a2a.PushConfig]] = {}
        self._senders: dict[tuple[str, str], asyncio.Task[None]] = {}
        closing.streams.add(self._close)

    def allowed(self) -> Fetcher:
        if self.fetcher is None:
            raise a2a.refused("this server sends no push notifications", a2a.PUSH_NOT_SUPPORTED)
        return self.fetcher

    def check(self, config: a2a.PushConfig) -> None:
        self.allowed().check(config.url)
        if config.id:
            check_id(config.id)

    def add(self, run: ToldRun, context: str, config: a2a.PushConfig) -> a2a.PushConfig:
        """Have changes of a run after `run.after` sent, and return the configuration with its ids."""
        self.check(config)
        config = replace(config, id=config.id or new_id(), task_id=run.id)
        known = self._configs.setdefault(run.id, {})
        if config.id not in known and (len(known) >= _MOST_OF_TASK or len(self._senders) >= _MOST):
            raise a2a.refused("there are as many push notifications as may be", a2a.UNSUPPORTED_OPERATION)
        self.remove(run.id, config.id)
        self._configs.setdefault(run.id, {})[config.id] = config
        sending = asyncio.get_running_loop().create_task(self._send_all(run, context, config))
        self._senders[run.id, config.id] = sending
        sending.add_done_callback(lambda _: self._senders.pop((run.id, config.id), None))
        return config

    def of(self, task_id: str) -> list[a2a.PushConfig]:
        return list(self._configs.get(task_id, {}).values())

    def remove(self, task_id: str, config_id: str) -> None:
        self._configs.get(task_id, {}).pop(config_id, None)
        if not self._configs.get(task_id):
            self._configs.pop(task_id, None)
        sending = self._senders.pop((task_id, config_id), None)
        if sending is not None:
            sending.cancel()

    def _close(self) -> None:
        for sending in list(self._senders.values()):
            sending.cancel()

    async def _send_all(self, run: ToldRun, context: str, config: a2a.PushConfig) -> None:
        updates = Updates(run.id, context, pieces=False)
        async with aclosing(replace(run, waits=True).told()) as told:
            async for each in told:
                for update in updates.encode(each.what):
                    await self._send(encode(update), config)

    async def _send(self, body: bytes, config: a2a.PushConfig) -> None:
        headers = {"content-type": "application/a2a+json"}
        headers |= {"x-a2a-notification-token": config.token} if config.token else {}
        known = config.authentication
        headers |= {"authorization": f"{known.scheme} {known.credentials}"} if known is not None else {}
        why = ""
        for number in range(_TRIES):
            if number:
                await SYSTEM_CLOCK.sleep(_PAUSE * 2**number)
            try:
                reply = await self.allowed().post(config.url, body, headers, root("push"))
            except Denied as error:
                why = str(error)
                break
            except (ServiceError, Timeout) as error:
                why = str(error)
            else:
                if reply.status < 400:
                    return
                why = f"status {reply.status}"
        logger.warning("a change of the task %s was not sent: %s", config.task_id, why)
