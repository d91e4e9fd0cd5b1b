"""A server of both eras for tests, as a program over its standard streams: ``python server.py [SETTING=VALUE ...]``.

Settings: ``era`` is ``both``, ``legacy`` or ``modern``; ``tools`` is how many tools it lists besides its own, ``page``
how many on a page; ``log`` a file to which it appends each call; ``cursor=stuck`` lists the same page for ever;
``probe=exit`` ends it at the first request of the newer era, ``probe=silent`` has it say nothing; ``notice`` is a line
that it writes to its standard error when it starts.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

Json = dict[str, Any]
Send = Callable[[Json], Awaitable[None]]
PREFIX = "io.modelcontextprotocol/"
OBJECT = {"type": "object"}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
MEASURED = {"type": "object", "properties": {"degrees": {"type": "number"}}, "required": ["degrees"]}
NAMED = {"type": "object", "properties": {"name": {"type": "string", "default": "nobody"}}, "required": ["name"]}
OWN = (
    "die", "hang", "silent", "slow", "progress", "ask", "think", "roots", "task", "huge", "endless", "garbage",
    "wrong_id", "half", "flood", "count", "picture", "refuse", "broken_result", "link", "ask_much", "chatter",
    "change", "odd_notes",
)  # fmt: skip


class Server:
    """One server; `send` writes a message to its client."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings
        if "notice" in settings:
            print(settings["notice"], file=sys.stderr, flush=True)
        self.calls = 0
        self.asked: dict[str, asyncio.Future[Json]] = {}
        self.running: dict[Any, asyncio.Task[None]] = {}
        self.cancelled: list[Any] = []
        self.tasks: dict[str, Json] = {}
        self.followers: dict[Any, tuple[Send, Json]] = {}
        """Who is told of changes, and of which: by the id of the request, None for all of the older era."""
        self.grown = 0

    async def take(self, message: Json, send: Send) -> None:
        """Take a message of the client, and answer it."""
        method, number = message.get("method"), message.get("id")
        if method is None:
            if (waiting := self.asked.pop(str(number), None)) is not None:
                waiting.set_result(message.get("result") or {"error": message.get("error")})
            return
        if method == "notifications/cancelled":
            self.cancelled.append(message["params"]["requestId"])
            if (task := self.running.pop(message["params"]["requestId"], None)) is not None:
                task.cancel()
        if number is None:
            return
        task = self.running[number] = asyncio.ensure_future(self.answer(message, send))
        try:
            await task
        except asyncio.CancelledError:
            pass
        finally:
            self.running.pop(number, None)

    async def answer(self, message: Json, send: Send) -> None:
        params = message.get("params", {})
        modern = f"{PREFIX}protocolVersion" in params.get("_meta", {})
        try:
            result = await self.result(message["method"], params, modern, message["id"], send)
        except LookupError as error:
            code = -32601 if isinstance(error, KeyError) else -32602
            await send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": str(error)}})
            return
        if result is not None:
            if modern:
                result = {"resultType": "complete", **result}
            await send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def result(self, method: str, params: Json, modern: bool, number: Any, send: Send) -> Json | None:
        era = self.settings.get("era", "both")
        if modern and self.settings.get("probe") == "exit":
            os._exit(4)
        if modern and self.settings.get("probe") == "silent":
            return None
        if method == "ping":
            return {}
        if method == "server/discover" and era != "legacy":
            able: Json = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            able["extensions"] = {f"{PREFIX}tasks": {}}
            return {"supportedVersions": ["2026-07-28"], "capabilities": able, "instructions": "Be brief."}
        if method == "initialize" and era != "modern":
            able = {"tools": {"listChanged": True}, "resources": {}, "prompts": {}}
            about = {"name": "test", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": able, "serverInfo": about}
        if (modern and era == "legacy") or (not modern and era == "modern"):
            raise KeyError(method)
        if method == "subscriptions/listen":
            await self.follow(params["notifications"], number, send)
        if method == "tools/list":
            return self.page(params)
        if method == "resources/list":
            return {"resources": [{"uri": "test://a", "name": "a"}, {"uri": 7}], "ttlMs": 60_000}
        if method == "resources/templates/list" and self.settings.get("templates") != "no":
            return {"resourceTemplates": [{"uriTemplate": "test://{name}", "name": "any"}]}
        if method == "resources/read":
            if params["uri"] != "test://a":
                raise IndexError("there is no such resource")
            return {"contents": [{"uri": "test://a", "text": "A"}, {"uri": "test://a", "blob": "QUJD"}]}
        if method == "prompts/list":
            return {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
        if method == "prompts/get":
            text = f"Greet {params['arguments'].get('who')}."
            return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}
        if method.startswith("tasks/"):
            return self.task(method, params)
        if method != "tools/call":
            raise KeyError(method)
        return await self.call(params, modern, number, send)

    def page(self, params: Json) -> Json:
        more = int(self.settings.get("tools", "0"))
        size = int(self.settings.get("page", "1000"))
        listed = [{"name": "echo", "description": "Says it again.", "inputSchema": TEXT}]
        listed += [{"name": name, "description": f"To {name}.", "inputSchema": OBJECT} for name in OWN]
        listed += [{"name": f"more_{n}", "description": f"Tool {n}.", "inputSchema": TEXT} for n in range(more)]
        listed += [{"name": f"grown_{n}", "inputSchema": OBJECT} for n in range(self.grown)]
        whole = {"n": {"type": "integer", "minimum": 0}}
        of_whole = {"a": {"$ref": "#/$defs/n"}}
        listed.append({"name": "refers", "inputSchema": {**OBJECT, "$defs": whole, "properties": of_whole}})
        listed.append({"name": "measure", "inputSchema": OBJECT, "outputSchema": MEASURED})
        listed.append({"name": "wrapped", "inputSchema": OBJECT, "outputSchema": OBJECT})
        listed.append({"name": "odd_output", "inputSchema": OBJECT, "outputSchema": {"type": "odd"}})
        hints = {"destructiveHint": True}
        listed.append({"name": "destroy", "inputSchema": OBJECT, "annotations": hints})
        listed.append({"name": "look", "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}})
        listed.append({"name": "../etc/pass wd", "inputSchema": OBJECT})
        listed.append({"name": "broken", "inputSchema": {"type": "object", "properties": 5}})
        listed.append({"name": "no schema"})
        if self.settings.get("schemas") == "hostile":
            listed += [{"name": f"hostile_{n}", "inputSchema": each} for n, each in enumerate(hostile_schemas())]
        start = int(params.get("cursor", "0"))
        found: Json = {"tools": listed[start : start + size], "ttlMs": int(self.settings.get("ttl", "0"))}
        if self.settings.get("cursor") == "stuck":
            return {**found, "nextCursor": "0"}
        return {**found, "nextCursor": str(start + size)} if start + size < len(listed) else found

    async def follow(self, wanted: Json, number: Any, send: Send) -> None:
        """Tell a client of the newer era of changes until it has enough."""
        self.followers[number] = (send, wanted)
        try:
            await self.tell("subscriptions/acknowledged", {"notifications": wanted}, number, send)
            await asyncio.Event().wait()
        finally:
            del self.followers[number]

    async def tell(self, method: str, params: Json, number: Any, send: Send) -> None:
        tag = {} if number is None else {"_meta": {f"{PREFIX}subscriptionId": number}}
        with suppress(ConnectionError):
            await send({"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, **tag}})

    async def tell_all(self, method: str) -> None:
        for number, (send, wanted) in [*self.followers.items()]:
            if wanted.get("toolsListChanged"):
                await self.tell(method, {}, number, send)

    def task(self, method: str, params: Json) -> Json:
        task = self.tasks[params["taskId"]]
        if method == "tasks/cancel":
            task["status"] = "cancelled"
        elif method == "tasks/update":
            task["answer"] = params["inputResponses"]["who"]["content"]["name"]
            task["status"] = "working"
        elif task["status"] == "working":
            if "answer" in task:
                text = f"done for {task['answer']}"
                return {**task, "status": "completed", "result": {"content": [{"type": "text", "text": text}]}}
            task["status"] = "input_required"
        asked = {"who": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": NAMED}}}
        return {**task, "inputRequests": asked} if task["status"] == "input_required" else dict(task)

    async def ask(self, method: str, params: Json, send: Send) -> Json:
        number = f"s{len(self.asked)}-{self.calls}"
        waiting = self.asked[number] = asyncio.get_running_loop().create_future()
        await send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer: Json = await waiting
        return answer

    async def call(self, params: Json, modern: bool, number: Any, send: Send) -> Json | None:
        self.calls += 1
        name, arguments = params["name"], params.get("arguments", {})
        if "log" in self.settings:
            with open(self.settings["log"], "a", encoding="utf-8") as file:  # noqa: ASYNC230
                file.write(f"{name}\n")
        token = params.get("_meta", {}).get("progressToken")
        if name == "die":
            print(arguments.get("words", ""), file=sys.stderr, flush=True)
            os._exit(3)
        if name == "hang":
            time.sleep(3600)  # noqa: ASYNC251 - it blocks all of its process
        if name == "silent":
            await asyncio.Event().wait()
        if name == "slow":
            await asyncio.sleep(arguments.get("seconds", 0.05))
        if name == "progress":
            for step in range(arguments.get("times", 3)):
                body = {"progressToken": token, "progress": step, "message": f"step {step}"}
                await send({"jsonrpc": "2.0", "method": "notifications/progress", "params": body})
                await asyncio.sleep(arguments.get("pause", 0))
        if name in ("ask", "think", "roots"):
            said = {"role": "user", "content": {"type": "text", "text": "Think."}}
            questions: dict[str, tuple[str, Json]] = {
                "ask": ("elicitation/create", {"message": "Your name?", "requestedSchema": NAMED}),
                "think": ("sampling/createMessage", {"messages": [said], "maxTokens": 5}),
                "roots": ("roots/list", {}),
            }
            method, body = questions[name]
            if not modern:
                return text(json.dumps(await self.ask(method, body, send)))
            if "inputResponses" not in params:
                state = {"requestState": "kept"}
                return {
                    "resultType": "input_required",
                    "inputRequests": {"k": {"method": method, "params": body}},
                    **state,
                }
            assert params["requestState"] == "kept"
            return text(json.dumps(params["inputResponses"]["k"]))
        if name == "ask_much":
            if modern:
                body = {"message": "Again?", "requestedSchema": NAMED}
                times = range(arguments.get("at_once", 1))
                again = {f"k{n}": {"method": "elicitation/create", "params": body} for n in times}
                return {"resultType": "input_required", "inputRequests": again}
            while True:
                await self.ask("elicitation/create", {"message": "Again?", "requestedSchema": NAMED}, send)
        if name == "task" and modern:
            task: Json = {"taskId": f"t{self.calls}", "status": "working", "pollIntervalMs": 1}
            self.tasks[task["taskId"]] = task
            return {**task, "resultType": "task"}
        if name == "change":
            self.grown += 1
            await self.tell_all("tools/list_changed")
        if name in ("measure", "wrapped", "odd_output"):
            return {**text(arguments.get("text", "It is warm.")), **arguments.get("result", {})}
        if name == "huge":
            return text("x" * arguments["size"])
        if name == "endless":
            await send({"raw": "x" * (1 << 20), "repeat": True})
        if name == "garbage":
            await send({"raw": "this is not JSON\n{\n\xff\n"})
        if name == "half":
            await send({"raw": f'{{"jsonrpc":"2.0","id":{number},"result":1,"error":{{"code":1,"message":"both"}}}}\n'})
            return None
        if name == "wrong_id":
            await send({"jsonrpc": "2.0", "id": 999_999, "result": text("not yours")})
            await send({"jsonrpc": "2.0", "id": str(number), "result": text("nor that")})
            return None
        if name == "odd_notes":
            for method in ("progress", "resources/updated", "odd"):
                await send(
                    {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {"progress": [], "uri": 5}}
                )
        if name == "flood":
            for _ in range(arguments.get("count", 100)):
                await send(
                    {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}
                )
        if name == "chatter":
            while True:
                await send({"jsonrpc": "2.0", "id": 1_000_000, "result": {}})
        if name == "count":
            return text(str(self.calls))
        if name == "picture":
            return {"content": [{"type": "image", "data": "QUJD", "mimeType": "image/png"}, text("seen")["content"][0]]}
        if name == "link":
            linked = {"type": "resource_link", "uri": "test://a", "name": "a"}
            return {
                "content": [linked, {"type": "resource", "resource": {"uri": "test://a", "text": "A"}}, {"type": "odd"}]
            }
        if name == "refuse":
            return {**text("it went wrong"), "isError": True}
        if name == "broken_result":
            return {"content": "none"}
        if name == "unknown":
            raise IndexError("there is no such tool")
        return text(arguments.get("text", name))


def hostile_schemas() -> list[Json]:
    """Return schemas that explode, refer elsewhere, or never end."""
    deep: Json = {"type": "string"}
    for _ in range(300):
        deep = {"type": "object", "properties": {"a": deep}}
    doubled = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    return [
        deep,
        {**OBJECT, "$defs": {**doubled, "d40": {}}, "properties": {"a": {"$ref": "#/$defs/d0"}}},
        {**OBJECT, "$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}},
        {**OBJECT, "properties": {"a": {"$ref": "http://127.0.0.1:1/schema.json"}}},
        {**OBJECT, "properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {**OBJECT, "properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
        {**OBJECT, "properties": {f"p{n}": {"description": "x" * 100} for n in range(20_000)}},
        {**OBJECT, "properties": {"a": {"enum": list(range(200_000))}}},
    ]


def text(content: str) -> Json:
    return {"content": [{"type": "text", "text": content}]}


async def main(settings: dict[str, str]) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    server, tasks = Server(settings), set[asyncio.Task[None]]()

    async def send(message: Json) -> None:
        if "raw" in message:
            while message.get("repeat"):
                os.write(1, message["raw"].encode("latin-1"))
            os.write(1, message["raw"].encode("latin-1"))
            return
        data = json.dumps(message).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]

    server.followers[None] = (send, {"toolsListChanged": settings.get("era") != "modern"})
    while line := await reader.readline():
        task = asyncio.ensure_future(server.take(json.loads(line), send))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(dict(each.split("=", 1) for each in sys.argv[1:])))
