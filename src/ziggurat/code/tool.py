"""CodeTool: one tool with which a model calls all others, by programs that it writes."""

import json
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from msgspec import Meta

from ziggurat.code.program import Program, open_sandbox
from ziggurat.code.stubs import BATCHED, BATCHES, Stub, code_in, facts_of, stubs_of
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.service import Fact
from ziggurat.core.settings import NonEmptyText, checked
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import SPEC, ToolSpec
from ziggurat.sandbox.sandbox import ProgramResult, Sandbox
from ziggurat.tools.entry import Tool
from ziggurat.tools.guarded_call import APPROVED_CALL
from ziggurat.tools.toolbox import Toolbox

_DESCRIPTION = """\
Run a Python program. Its printed output and the value of its last line are returned; its variables are gone after it.
It may call these functions, without await, and catch the errors that they raise:

{stubs}

{batches}
{rules}"""

_MONTY_RULES = """
Not available: classes that inherit, yield, del, files, network, and modules other than asyncio, base64, bisect,
collections, copy, dataclasses, datetime, decimal, functools, itertools, json, math, re, time, typing. Write
[f(x) for x in xs] rather than map(f, xs)."""


class CodeTool:
    """A tool that runs a program of the model, in which the other tools are functions::

        agent = Agent(model, tools=[CodeTool([search, pay])], approvals=Approvals("pay"))

    Each call of a function is made as if the model had made it: it is checked, permitted, approved, counted and
    recorded in the same way, at ``.../run_code/call-3:pay``. If it waits for a person, the program ends. When the run
    is continued, the program runs again from its start, with the same time and random numbers, and the calls that it
    had made are answered from the record. If it makes other calls nevertheless, it is ended before the first of them.

    Calls are made one after another; ``look_batched(["a", "b"])`` makes several of `look` at the same time, eight or as
    many as a `Toolbox` allows. A failure is then a text that begins with ``[ERROR]``.

    Args:
        tools: What the program may call: functions, tools, agents, or a `Toolbox`.
        sandbox: Where it runs, with its limits.
        name: The tool's name.

    Raises:
        ConfigurationError: something is not a tool, or two tools have the same name as functions.
    """

    @checked
    def __init__(
        self,
        tools: Annotated[Iterable[Tool] | Toolbox, Meta(title="list of functions, tools and agents")],
        *,
        sandbox: Sandbox | None = None,
        name: NonEmptyText = "run_code",
    ) -> None:
        box = tools if isinstance(tools, Toolbox) else Toolbox(tools, concurrency=8)
        if box.on_error == "raise":
            raise ConfigurationError("the errors of tools go to the program: pass a Toolbox with on_error='return'")
        self.tools: Toolbox = box
        self.sandbox: Sandbox = sandbox or Sandbox()
        self.name: str = name
        self.stubs: Mapping[str, Stub] = stubs_of(box)
        self.facts: dict[Fact[Any], Any] = facts_of(name, self.describe(), box)
        self.spec: ToolSpec = self.facts[SPEC]

    @property
    def functions(self) -> tuple[str, ...]:
        return (*self.stubs, *(f"{name}{BATCHED}" for name in self.stubs))

    def describe(self, description: str = _DESCRIPTION, **more: object) -> str:
        rules = _MONTY_RULES if self.sandbox.level == "monty" else "\nThere are no files and no network."
        stubs = "\n".join(stub.text for stub in self.stubs.values())
        return description.format(stubs=stubs, batches=BATCHES, rules=rules, **more)

    async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
        approved = ctx.scope.get(APPROVED_CALL)
        if approved is not None:
            approved.use(call, ctx)
        result = await self.run_program(call, ctx)
        if result.error:
            raise ToolError("\n".join(filter(None, (result.output, result.error))))
        value, most = result.value, self.sandbox.output
        shown = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        if len(shown) > most:
            shown = f"{shown[:most]}\n[cut: {len(shown) - most} more characters]"
        text = "\n".join(filter(None, (result.output.rstrip("\n"), shown))) or "(no output)"
        return ToolResult(call.id, call.name, text, None, call.name)

    async def run_program(self, call: ToolCall, ctx: Context) -> ProgramResult:
        program = Program(self.tools, self.stubs, ctx, call.id, self.sandbox.calls)
        async with await open_sandbox(self.sandbox, ctx) as session:
            return await session.run(code_in(call), program.call, self.functions)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.tools)})"
