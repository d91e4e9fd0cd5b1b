"""SessionTool: a tool that runs programs in the session of the agent that calls it."""

from collections.abc import Mapping
from typing import Any

from ziggurat.agents.output import AnswerReader
from ziggurat.code.program import observation
from ziggurat.code.session import ANSWER, SESSION, Given, Setting
from ziggurat.code.source import facts_of, rules_of, spec_of
from ziggurat.code.stubs import BATCHES, stubs_of, type_of
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.service import Fact
from ziggurat.messages.message import Message, ToolCall, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.sandbox.sandbox import Sandbox
from ziggurat.tools.function import APPROVED_CALL
from ziggurat.tools.toolbox import Toolbox

_DESCRIPTION = """\
Run a Python program in a session that keeps its variables. Its printed output and the value of its last line are
returned, up to {limit:,} characters. There are {variables}these functions, without await:

{stubs}
def submit(answer: {answer}) -> None:
    'Give the final answer, and end.'

{batches}
{rules}"""

_PREVIEW = 300


class SessionTool:
    """A tool that runs programs in the session of the agent that calls it.

    Args:
        tools: What programs may call.
        variables: What each session begins with.
        sandbox: Where it is.
        name: The tool's name.
        output: How answers are read; None if they are text or plain data.
    """

    def __init__(
        self,
        tools: Toolbox,
        variables: Mapping[str, Any],
        sandbox: Sandbox,
        *,
        name: str,
        output: AnswerReader | None = None,
    ) -> None:
        self.setting: Setting = Setting(name, tools, stubs_of(tools), variables, sandbox, output)
        taken = variables.keys() & set(self.setting.functions)
        if taken:
            raise ConfigurationError(f"the name {min(taken)!r} is taken by a function: name the variable otherwise")
        self.spec: ToolSpec = spec_of(name, self._describe(), tools)
        self.facts: dict[Fact[Any], Any] = facts_of(self.spec, tools)

    def _describe(self) -> str:
        setting = self.setting
        stubs = "\n".join(stub.text for stub in setting.stubs.values())
        shown = "\n".join(_shown(name, value) for name, value in setting.variables.items())
        variables = f"the variables\n\n{shown}\n\nand " if shown else ""
        rules, output = rules_of(setting.sandbox), setting.output
        answer = "Any" if output is None else type_of(output.value_schema, output.schema)
        return _DESCRIPTION.format(
            limit=setting.sandbox.output, variables=variables, stubs=stubs, answer=answer, batches=BATCHES, rules=rules
        )

    async def __call__(self, call: ToolCall, ctx: Context, /) -> ToolResult:
        """Run the program of a call in the session."""
        approved = ctx.scope.get(APPROVED_CALL)
        if approved is not None:
            approved.use(call, ctx)
        try:
            result = await ctx.scope[SESSION].run(call, ctx)
        except Given as given:
            return ToolResult(call.id, call.name, given.text, None, call.name)
        if result.error:
            lost = "The session has ended: all variables are as at first." if result.lost else ""
            text = "\n".join(filter(None, (result.output, result.error, lost)))
            raise ToolError(text, kind="interrupted" if result.lost else "permanent")
        text = observation(result.output, result.value, self.setting.sandbox.output)
        if text.startswith(ANSWER):
            text = f"\n{text}"
        return ToolResult(call.id, call.name, text, None, call.name)

    def __repr__(self) -> str:
        return f"SessionTool({', '.join(self.setting.variables)})"


def _shown(name: str, value: Any) -> str:
    if isinstance(value, str):
        return f"{name}: str, {len(value):,} characters, which begin with {value[:_PREVIEW]!r}"
    size = f", {len(value):,} items" if isinstance(value, (list, dict)) else ""
    return f"{name}: {type(value).__name__}{size}"


def answer_in(source: ToolResult | Message) -> str | None:
    """Return the JSON of the answer given with the result of a program, or with those in a message, or None."""
    if isinstance(source, Message):
        return next((each for result in source.tool_results if (each := answer_in(result)) is not None), None)
    text = source.text
    return text[len(ANSWER) :] if source.error is None and text.startswith(ANSWER) else None
