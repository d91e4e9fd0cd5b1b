"""The agents of the golden recordings; each answers by the conversation alone, in any process."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from tests.hard_cases.support import ByTurn, results_in
from ziggurat import Agent, Context, ModelRequest, ModelResponse, Runnable, tool
from ziggurat.errors import ModelError
from ziggurat.layers import fallback, retry
from ziggurat.messages import Text, assistant, tool_call
from ziggurat.middleware import Redaction
from ziggurat.testing import ScriptedModel


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def divide(a: int, b: int) -> float:
    """Divide one number by another."""
    return a / b


@tool
async def look_up(name: str) -> dict[str, str]:
    """Find the address of a person."""
    return {"name": name, "mail": f"{name}@example.org", "token": "sk-proj-abcdefghijklmnopqrstuvwx"}


@tool(effect="once")
async def pay(amount: float, to: str) -> str:
    """Pay somebody."""
    return f"paid {amount:g} to {to}"


@tool(effect="once", approval=True)
async def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return f"sent to {to}"


PROMPT = "Do what you do."


class City(Struct):
    """What the agent with a typed answer says."""

    name: str
    people: int


def tools(store: Any) -> Agent:
    """Return an agent that calls tools side by side, one of which fails."""
    both = [tool_call("add", id="call_0", a=1, b=2), tool_call("divide", id="call_1", a=1, b=0)]
    again = tool_call("add", id="call_0", a=3, b=4)
    return Agent(ByTurn(both, again, "3, and 7."), name="tools", tools=[add, divide], store=store, instructions="Add.")


def nested(store: Any) -> Agent:
    """Return an agent that asks another one, which calls a tool."""
    inner = ByTurn(tool_call("add", id="call_0", a=1, b=2), lambda request: f"It is {results_in(request)[-1].text}.")
    helper = Agent(inner, name="helper", tools=[add], description="Adds.")
    asks = [tool_call("helper", id="call_0", input="1 + 2?"), tool_call("add", id="call_1", a=5, b=5)]
    return Agent(ByTurn(asks, "3, and 10."), name="nested", tools=[helper, add], store=store)


def pending(store: Any) -> Agent:
    """Return an agent one of whose calls waits for a person, beside one that does not."""
    turn = [tool_call("send_mail", id="call_0", to="ada", text="Grüße"), tool_call("look_up", id="call_1", name="ada")]
    return Agent(ByTurn(turn, "It is sent."), name="pending", tools=[look_up, send_mail], store=store)


class Flaky:
    """A model that fails the first times that a process asks it."""

    __name__ = "flaky"

    def __init__(self, failures: int, inner: ByTurn, transient: bool = True) -> None:
        self._left = failures
        self._inner = inner
        self._transient = transient

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        if self._left > 0:
            self._left -= 1
            raise ModelError("the line was bad", transient=self._transient)
        return await self._inner(request, ctx)


def tries(store: Any) -> Agent:
    """Return an agent that asks one that is tried again, and one that another stands in for."""
    again = Agent(Flaky(2, ByTurn("At last.")), name="again").layered(retry(attempts=3, base=0))
    first = Agent(Flaky(9, ByTurn("never"), transient=False), name="first")
    other = Runnable(fallback(first, Agent(ByTurn("Instead."), name="second")), name="other")
    asks = [tool_call("again", id="call_0", input="now"), tool_call("other", id="call_1", input="now")]
    return Agent(ByTurn(asks, "All is well."), name="tries", tools=[again, other], store=store)


def once(store: Any) -> Agent:
    """Return an agent that pays."""
    model = ByTurn(tool_call("pay", id="call_0", amount=5.0, to="eve"), lambda request: results_in(request)[-1].text)
    return Agent(model, name="once", tools=[pay], store=store)


def redacted(store: Any) -> Agent:
    """Return an agent whose model says a secret in pieces, and whose tool returns one."""
    said = ["The word is sk-pr", "oj-abcdefghijkl", "mnopqrstuvwx", ", they say."]

    def next_turn(request: ModelRequest) -> Any:
        if not results_in(request):
            return [*said, tool_call("look_up", id="call_0", name="ada")]
        return assistant(Text(f"It says {results_in(request)[-1].text}"))

    model = ScriptedModel(always=next_turn)
    return Agent(model, name="redacted", tools=[look_up], middleware=[Redaction()], store=store)


def typed(store: Any) -> Agent:
    """Return an agent that answers with a City, at the second try."""
    wrong = tool_call("final_answer", id="call_0", name="Rome")
    model = ByTurn(wrong, tool_call("final_answer", id="call_0", name="Rome", people=2_800_000))
    return Agent(model, name="typed", output=City, store=store)


def failed(store: Any) -> Agent:
    """Return an agent whose model fails for good, the first time that a process asks it."""
    return Agent(Flaky(1, ByTurn("Now it works."), transient=False), name="failed", store=store)


def talker(store: Any) -> Agent:
    """Return an agent that talks in sessions."""
    return Agent(ByTurn("Hello Ada.", "You are Ada.", "Still Ada."), name="talker", store=store)


@dataclass(frozen=True)
class Golden:
    """One kind of recorded run.

    Attributes:
        make: Makes its agent.
        stop: How the recorded run ended.
        text: What it says when it is gone on with to its end.
        streamed: Whether somebody listened.
        may_say: What it may say too when it was cut somewhere.
    """

    make: Callable[[Any], Agent]
    stop: str
    text: str
    streamed: bool = False
    may_say: frozenset[str] = field(default_factory=frozenset)


MASKED = 'It says {"name":"ada","mail":"ada@example.org","token":"[REDACTED]"}'

GOLDEN = {
    "tools": Golden(tools, "Completed", "3, and 7."),
    "nested": Golden(nested, "Completed", "3, and 10."),
    "pending": Golden(pending, "Suspended", "It is sent."),
    "tries": Golden(tries, "Completed", "All is well."),
    "once": Golden(once, "Completed", "paid 5 to eve", may_say=frozenset({"interrupted"})),
    "redacted": Golden(redacted, "Completed", MASKED, streamed=True),
    "typed": Golden(typed, "Completed", ""),
    "failed": Golden(failed, "Failed", "Now it works."),
}
