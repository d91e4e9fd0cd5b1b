"""When a loop stops. Policies look at how far it got and name a reason, or None to go on.

They are asked twice per step: upon the model's response, and upon the step with its tools done. What they need to
know is in `Progress`, so a policy keeps nothing of a run on itself and serves many runs at once.
"""

__all__ = [
    "Policy",
    "Progress",
    "any_of",
    "max_steps",
    "stop_when",
    "until_no_tool_calls",
    "until_tool_called",
]

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from msgspec import Struct

from ziggurat.core.errors import ConfigurationError
from ziggurat.messages import stops
from ziggurat.messages.model import ModelResponse
from ziggurat.messages.parts import ToolCall, ToolResult
from ziggurat.messages.usage import Usage


class Progress(Struct, frozen=True):
    """How far a run got.

    Attributes:
        step: The step, from 1.
        response: The model's response of this step.
        usage: What the run has cost so far, this response included.
        tool_calls: How many tools were called so far.
        results: Results of the step, or of the one before while the response is judged.
    """

    step: int
    response: ModelResponse
    usage: Usage
    tool_calls: int
    results: tuple[ToolResult, ...] = ()

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of this step's response."""
        return self.response.tool_calls


@runtime_checkable
class Policy(Protocol):
    """Decides whether a run stops; either method may always return None."""

    def on_response(self, progress: Progress) -> stops.Stop | None:
        """Judge the model's response, before its tools run."""
        ...

    def on_step(self, progress: Progress) -> stops.Stop | None:
        """Judge the step, after its tools ran."""
        ...


class _Policy:
    """Base of our own policies: never stops, and composes with ``|``."""

    def on_response(self, progress: Progress) -> stops.Stop | None:
        return None

    def on_step(self, progress: Progress) -> stops.Stop | None:
        return None

    def __or__(self, other: Policy) -> Policy:
        return any_of(self, other)


class _NoToolCalls(_Policy):
    def on_response(self, progress: Progress) -> stops.Stop | None:
        return None if progress.calls else stops.Completed()

    def __repr__(self) -> str:
        return "until_no_tool_calls()"


def until_no_tool_calls() -> Policy:
    """Stop when the model asks for no tool; every loop does so anyway."""
    return _NoToolCalls()


class _ToolCalled(_Policy):
    def __init__(self, name: str) -> None:
        self.name = name

    def on_step(self, progress: Progress) -> stops.Stop | None:
        return stops.ToolCalled(self.name) if any(call.name == self.name for call in progress.calls) else None

    def __repr__(self) -> str:
        return f"until_tool_called({self.name!r})"


def until_tool_called(name: str) -> Policy:
    """Stop after a step in which this tool ran."""
    if not isinstance(name, str) or not name:
        raise ConfigurationError(f"until_tool_called() needs the name of a tool, got {name!r}")
    return _ToolCalled(name)


class _MaxSteps(_Policy):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def on_step(self, progress: Progress) -> stops.Stop | None:
        return stops.MaxSteps(self.limit) if progress.step >= self.limit else None

    def __repr__(self) -> str:
        return f"max_steps({self.limit})"


def max_steps(limit: int) -> Policy:
    """Stop after this many steps; the tools of the last one do run."""
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise ConfigurationError(f"max_steps must be a whole number of at least 1, got {limit!r}")
    return _MaxSteps(limit)


class _StopWhen(_Policy):
    def __init__(self, condition: Callable[[Progress], bool | str | None]) -> None:
        self.condition = condition

    def on_response(self, progress: Progress) -> stops.Stop | None:
        answer = self.condition(progress)
        if not answer:
            return None
        return stops.StopCondition(answer if isinstance(answer, str) else "")

    def __repr__(self) -> str:
        return f"stop_when({getattr(self.condition, '__name__', self.condition)})"


def stop_when(condition: Callable[[Progress], bool | str | None]) -> Policy:
    """Stop when `condition` holds of a response; a text it returns is the reason.

    Tool calls of that response are not executed.
    """
    if not callable(condition):
        raise ConfigurationError(f"stop_when() needs a function of the Progress, got {condition!r}")
    return _StopWhen(condition)


class _AnyOf(_Policy):
    def __init__(self, policies: tuple[Policy, ...]) -> None:
        self.policies = policies

    def on_response(self, progress: Progress) -> stops.Stop | None:
        for policy in self.policies:
            stop = policy.on_response(progress)
            if stop is not None:
                return stop
        return None

    def on_step(self, progress: Progress) -> stops.Stop | None:
        for policy in self.policies:
            stop = policy.on_step(progress)
            if stop is not None:
                return stop
        return None

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.policies))


def any_of(*policies: Policy) -> Policy:
    """Stop as soon as one of the policies does; the first in the order given names the reason."""
    for policy in policies:
        if not isinstance(policy, Policy):
            raise ConfigurationError(
                f"a stop policy has on_response(progress) and on_step(progress); got {policy!r}. "
                "For a plain condition write stop_when(lambda progress: ...)"
            )
    return _AnyOf(policies)
