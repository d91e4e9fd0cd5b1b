"""Loop detection: a stop policy that notices when a model repeats itself."""

from collections.abc import Collection
from typing import Annotated, Literal, get_args

from msgspec import Meta, Struct

from ziggurat.agents.stop import Advice, BasePolicy, Progress, Verdict
from ziggurat.core.errors import ConfigurationError
from ziggurat.core.settings import checked
from ziggurat.messages import stops
from ziggurat.messages.events import LoopWarning

LoopAction = Literal["warn", "inject", "stop"]
"""What to do about a loop."""
LoopMode = Literal["identical", "alternating", "same_result"]
"""What counts as a repetition."""

Batch = tuple[tuple[str, ...], ...]


class _Seen(Struct):
    """The last calls and results of one run, and how often each repeated in a row."""

    last: Batch = ()
    before: Batch = ()
    same: int = 0
    alternating: int = 0
    outcome: Batch = ()
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


def _names(batch: Batch) -> str:
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

    Raises:
        ConfigurationError: an argument has a wrong value.
    """
    detected, free = list(modes), list(exempt)
    if not detected:
        raise ConfigurationError(f"loop_detection() needs modes: some of {', '.join(map(repr, get_args(LoopMode)))}")
    return _LoopDetection(threshold, action, frozenset(detected), frozenset(free))
