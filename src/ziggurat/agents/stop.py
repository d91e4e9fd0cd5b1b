"""Stop policies, which are called with the response of each step, and after its tools have run.

A policy keeps its state for a run in `Progress.state`, so it can serve many runs at once. A resumed run passes through
all its recorded steps again, which rebuilds that state.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from typing import Annotated, Literal, Protocol, TypeVar, get_args, runtime_checkable

from msgspec import Meta, Struct

from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.event import Event
from ziggurat.core.settings import NonEmptyText, PositiveInt, checked
from ziggurat.core.tasks import closed
from ziggurat.messages import stops
from ziggurat.messages.events import LoopWarning
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.usage import Usage
from ziggurat.tools.toolbox import Toolbox

S = TypeVar("S")

MAX_STEPS = 25
"""The number of steps of an agent that is given no other."""


class Progress(Struct, frozen=True):
    """How far a run has got.

    Attributes:
        step: The step, from 1.
        response: The model's response of this step.
        usage: The cost of the run so far, this response included.
        tool_calls: The number of tool calls so far.
        results: Results of this step, or of the one before while the response is judged.
        end: How the run ends with this response if no policy stops it; None if it goes on.
    """

    step: int
    response: ModelResponse
    usage: Usage
    tool_calls: int
    ctx: Context
    results: tuple[ToolResult, ...] = ()
    tools: Toolbox = Toolbox()
    end: stops.Stop | None = None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this step's response."""
        return self.response.tool_calls

    @property
    def path(self) -> str:
        """The path of the step, for events about it."""
        return f"{self.ctx.path}/step-{self.step}"

    def state(self, owner: object, factory: Callable[[], S]) -> S:
        """Return the state that the policy `owner` keeps for this run, made by `factory` on first use."""
        return self.ctx.state(owner, factory)


class Advice(Struct, frozen=True):
    """What a policy can do besides stopping a run: events for listeners, and texts for the model.

    The texts are added after the results of the step if the run continues; the conversation keeps them with
    ``origin="runtime"``.
    """

    events: tuple[Event, ...] = ()
    texts: tuple[str, ...] = ()


Verdict = stops.Stop | Advice | None
"""A policy's answer: stop for this reason, continue with a nudge, or continue."""


@runtime_checkable
class Policy(Protocol):
    """Decides whether a run stops; both methods return None to continue."""

    def on_response(self, progress: Progress) -> Verdict:
        """Judge the model's response, before its tools run."""
        ...

    def on_step(self, progress: Progress) -> Verdict:
        """Judge the step, after its tools have run."""
        ...


StopPolicy = Annotated[Policy, Meta(description="as stop_when(lambda progress: ...) makes of a condition")]
"""A policy as it is passed to an agent."""


class BasePolicy:
    """The base of the built-in policies, which composes with ``|`` and ``&``."""

    steps = 0
    tools: tuple[str, ...] = ()

    def on_response(self, progress: Progress) -> Verdict:
        return None

    def on_step(self, progress: Progress) -> Verdict:
        return None

    def __or__(self, other: Policy) -> "BasePolicy":
        return any_of(self, other)

    def __and__(self, other: Policy) -> "BasePolicy":
        return all_of(self, other)


Judge = Callable[[Progress], Verdict]


def _go_on(progress: Progress) -> None:
    """Return None, to continue."""


class _Judging(BasePolicy):
    def __init__(self, description: str, *, response: Judge = _go_on, step: Judge = _go_on, steps: int = 0) -> None:
        self.steps = steps
        self._description = description
        self._response = response
        self._step = step

    def on_response(self, progress: Progress) -> Verdict:
        return self._response(progress)

    def on_step(self, progress: Progress) -> Verdict:
        return self._step(progress)

    def __repr__(self) -> str:
        return self._description


def until_no_tool_calls() -> BasePolicy:
    """Stop when the model calls no tool, or gives its answer; every loop does so anyway."""
    return _Judging("until_no_tool_calls()", response=lambda progress: progress.end)


@checked
def until_tool_called(name: Annotated[NonEmptyText, Meta(title="name of a tool")]) -> BasePolicy:
    """Stop after a step in which this tool ran and succeeded; after a denied or failed call the run goes on."""

    def judge(progress: Progress) -> Verdict:
        ran = any(result.name == name and result.error is None for result in progress.results)
        return stops.ToolCalled(name) if ran else None

    policy = _Judging(f"until_tool_called({name!r})", step=judge)
    policy.tools = (name,)
    return policy


@checked
def max_steps(limit: PositiveInt) -> BasePolicy:
    """Stop after this many steps; the tools of the last one still run."""

    def judge(progress: Progress) -> Verdict:
        return stops.MaxSteps(limit) if progress.step >= limit else None

    return _Judging(f"max_steps({limit})", step=judge, steps=limit)


@checked
def stop_when(condition: Callable[[Progress], bool | str | None]) -> BasePolicy:
    """Stop when `condition` returns true for a response; a string it returns is the reason.

    The tool calls of that response are not executed.
    """
    description = f"stop_when({getattr(condition, '__name__', condition)})"

    def judge(progress: Progress) -> Verdict:
        answer = condition(progress)
        if not answer:
            return None
        if isinstance(answer, (Awaitable, Iterator, AsyncIterator)):
            kind = "an awaitable" if isinstance(closed(answer), Awaitable) else "an iterator"
            raise ConfigurationError(f"{description} needs a plain function: it returned {kind}, which is always true")
        return stops.StopCondition(answer if isinstance(answer, str) else "")

    return _Judging(description, response=judge)


class _Composed(BasePolicy):
    def __init__(self, policies: tuple[Policy, ...], steps: int) -> None:
        self.policies = policies
        self.steps = steps
        self.tools = tools_in(*policies)

    def on_response(self, progress: Progress) -> Verdict:
        return self._judge(progress, [_ask(policy, progress, early=True) for policy in self.policies])

    def on_step(self, progress: Progress) -> Verdict:
        return self._judge(progress, [_ask(policy, progress, early=False) for policy in self.policies])

    def _judge(self, progress: Progress, verdicts: list[Verdict]) -> Verdict:
        raise NotImplementedError


class _AnyOf(_Composed):
    def _judge(self, progress: Progress, verdicts: list[Verdict]) -> Verdict:
        stop = next((each for each in verdicts if each is not None and not isinstance(each, Advice)), None)
        return _merge_nudges(verdicts) if stop is None else stop

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.policies))


@checked
def any_of(*policies: StopPolicy) -> BasePolicy:
    """Stop when any of the policies does; the first in the order given names the reason."""
    return _AnyOf(policies, max(map(steps_in, policies), default=0))


class _Reason(Struct, frozen=True):
    """Why one of several policies would stop, and the first and the last of the steps in a row in which it would."""

    stop: stops.Stop
    since: int
    last: int


class _AllOf(_Composed):
    def _judge(self, progress: Progress, verdicts: list[Verdict]) -> Verdict:
        reasons, step = progress.state(self, dict[int, _Reason]), progress.step
        for at, verdict in enumerate(verdicts):
            before = reasons.get(at)
            if verdict is None or isinstance(verdict, Advice) or (before is not None and before.last == step):
                continue
            since = before.since if before is not None and before.last == step - 1 else step
            reasons[at] = _Reason(verdict, since, step)
        present = [reason for _, reason in sorted(reasons.items()) if reason.last == step]
        if len(present) < len(self.policies):
            return _merge_nudges(verdicts)
        return max(present, key=lambda reason: reason.since).stop

    def __repr__(self) -> str:
        return " & ".join(f"({each!r})" if isinstance(each, _AnyOf) else repr(each) for each in self.policies)


@checked
def all_of(*policies: StopPolicy) -> BasePolicy:
    """Stop when all of the policies do in the same step; the last to hold names the reason, the first of several."""
    if not policies:
        raise ConfigurationError("all_of() needs at least one policy")
    steps = [*map(steps_in, policies)]
    beyond = any(steps) and not all(steps)  # the others may hold only after its `max_steps` does
    return _AllOf(policies, max(steps) + (MAX_STEPS if beyond else 0))


def steps_in(policy: Policy | None) -> int:
    return policy.steps if isinstance(policy, BasePolicy) else 0


def steps_allowed(policy: Policy | None) -> int:
    return max(MAX_STEPS, steps_in(policy))


def tools_in(*policies: Policy | None) -> tuple[str, ...]:
    return tuple(name for policy in policies if isinstance(policy, BasePolicy) for name in policy.tools)


_VERDICTS = object()
"""Owns the last verdict of each policy of a run, with its step."""


def _ask(policy: Policy, progress: Progress, *, early: bool) -> Verdict:
    """Return the verdict on the response (`early`) or on the step; a policy that occurs several times is asked once."""
    known = progress.state(_VERDICTS, dict[tuple[int, bool], tuple[int, Verdict]])
    step, verdict = known.get((id(policy), early), (0, None))
    if step != progress.step:
        verdict = policy.on_response(progress) if early else policy.on_step(progress)
        known[id(policy), early] = progress.step, verdict
    return verdict


def _merge_nudges(verdicts: list[Verdict]) -> Advice | None:
    nudges = [*{id(each): each for each in verdicts if isinstance(each, Advice)}.values()]  # each once
    if len(nudges) <= 1:
        return nudges[0] if nudges else None
    return Advice(
        tuple(event for nudge in nudges for event in nudge.events),
        tuple(text for nudge in nudges for text in nudge.texts),
    )


LoopAction = Literal["warn", "inject", "stop"]
"""What to do about a loop."""
LoopMode = Literal["identical", "alternating", "same_result"]
"""What counts as a repetition."""

_Batch = tuple[tuple[str, ...], ...]


class _Seen(Struct):
    last: _Batch = ()
    before: _Batch = ()
    same: int = 0
    alternating: int = 0
    outcome: _Batch = ()
    outcomes: int = 0
    noticed: bool = False


class _LoopDetection(BasePolicy):
    def __init__(self, threshold: int, action: LoopAction, modes: frozenset[LoopMode], exempt: frozenset[str]) -> None:
        self.threshold = threshold
        self.action = action
        self.modes = modes
        self.exempt = exempt

    def on_response(self, progress: Progress) -> Verdict:
        calls = [call for call in progress.calls if call.name not in self.exempt]
        seen = progress.state(self, _Seen)
        batch = tuple((call.name, progress.tools.normalize(call).canonical()) for call in calls)
        if not batch:
            _forget(seen)
            return None
        seen.same = seen.same + 1 if batch == seen.last else 1
        swings = batch == seen.before and batch != seen.last
        seen.alternating = seen.alternating + 1 if swings else 2 if seen.last and batch != seen.last else 1
        earlier, seen.before, seen.last = seen.last, seen.last, batch
        seen.noticed = False
        if "identical" in self.modes and seen.same >= self.threshold:
            return self._react(progress, seen, _names(batch), seen.same)
        rounds, rest = divmod(seen.alternating, 2)
        if "alternating" in self.modes and swings and not rest and rounds >= self.threshold:
            return self._react(progress, seen, f"{_names(earlier)}, {_names(batch)}", rounds)
        return None

    def on_step(self, progress: Progress) -> Verdict:
        seen = progress.state(self, _Seen)
        if "same_result" not in self.modes:
            return None
        results = [result for result in progress.results if result.name not in self.exempt]
        outcome = tuple((result.name, result.error or "", result.text) for result in results)
        seen.outcomes = seen.outcomes + 1 if outcome and outcome == seen.outcome else 1
        seen.outcome = outcome
        if not outcome or seen.noticed or seen.outcomes < self.threshold:
            return None
        return self._react(progress, seen, _names(outcome), seen.outcomes)

    def _react(self, progress: Progress, seen: _Seen, tools: str, count: int) -> Verdict:
        seen.noticed = True
        if self.action == "stop":
            return stops.LoopDetected(tools, count)
        event = LoopWarning(progress.path, tools, count)
        if self.action == "warn":
            return Advice((event,))
        _forget(seen)
        text = (
            f"{tools}: you have done the same {count} times in a row, and it has brought you no further. "
            "Do something else, or answer with what you know."
        )
        return Advice((event,), (text,))

    def __repr__(self) -> str:
        return f"loop_detection(threshold={self.threshold}, action={self.action!r})"


def _forget(seen: _Seen) -> None:
    seen.last = seen.before = seen.outcome = ()
    seen.same = seen.alternating = seen.outcomes = 0


def _names(batch: _Batch) -> str:
    return "+".join(each[0] for each in batch)


@checked
def loop_detection(
    threshold: Annotated[int, Meta(ge=2)] = 3,
    action: LoopAction = "warn",
    *,
    modes: Collection[LoopMode] = ("identical", "alternating"),
    exempt: Collection[str] = (),
) -> BasePolicy:
    """Detect a model that repeats itself: ``Agent(..., stop=loop_detection(action="inject"))``.

    All calls of a reply are compared with all calls of the reply before: names and arguments as the
    tools receive them, however they are written. The policy acts when they were equal `threshold` times in a row, and
    at each further repeat.

    Args:
        threshold: How many equal replies in a row.
        action: ``"warn"`` emits a `LoopWarning`; ``"inject"`` also tells the model, and starts counting again;
            ``"stop"`` ends the run with `LoopDetected` before the tools run once more.
        modes: ``"identical"`` calls; ``"alternating"`` calls (A B A B, counted in pairs); ``"same_result"``, tools that
            return the same whatever their arguments. Some tools rightly do, so the last is off by default.
        exempt: Tools that may be called repeatedly, such as one that polls.
    """
    detected, free = list(modes), list(exempt)
    if not detected:
        raise ConfigurationError(f"loop_detection() needs modes: some of {', '.join(map(repr, get_args(LoopMode)))}")
    return _LoopDetection(threshold, action, frozenset(detected), frozenset(free))
