"""ReplayModel: a model that answers from the record of a run, without calls."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ziggurat.core.codec import Raw, as_error, as_type
from ziggurat.core.context import RUN_ID, Context
from ziggurat.core.errors import ConfigurationError, JournalMismatch
from ziggurat.core.event import difference
from ziggurat.core.path import is_question, parent_of
from ziggurat.core.service import Fact
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.journal.entries import Failure, Outcome
from ziggurat.journal.journal import LocalJournal
from ziggurat.messages.events import Delta
from ziggurat.messages.message import deltas_of, fit
from ziggurat.messages.model import ModelRequest, ModelResponse
from ziggurat.models.reply import OutputModes, model_facts


class ReplayModel:
    """Gives the recorded answer for the same path in a recorded run, failed tries included::

        model = ReplayModel(Path("tests/rain.jsonl"))
        run = await Agent(model, tools=[weather]).run("Rain in Paris?")

    Tools are called; they must return what they returned then, because the recorded answers depend on it.

    Args:
        record: The record as JSON lines, or a file of them.
        strict: Raise if a request differs from the recorded one.
        window: The context window in tokens, if it matters.
        output_modes: The ways it supports typed output, best first.

    Raises:
        ConfigurationError: there is no such file, or the record has no model calls.
        JournalCorrupt: it is not a record; the message names the line.
    """

    @checked
    def __init__(
        self,
        record: bytes | str | Path,
        *,
        strict: bool = True,
        window: PositiveInt | None = None,
        output_modes: OutputModes = ("tool", "prompted"),
    ) -> None:
        self._journal = LocalJournal.load(_read(record))
        self._strict = strict
        self._asked: dict[tuple[str, str], int] = {}
        self._outcomes: dict[str, list[Outcome]] = {}
        for entry in self._journal.entries:
            if isinstance(entry, Outcome) and is_question(entry.path):
                self._outcomes.setdefault(entry.path, []).append(entry)
        if not self._outcomes:
            raise ConfigurationError("no model was called in this record, so there is nothing to answer with")
        self.name: str = next(iter(self._outcomes.values()))[0].name
        self.facts: Mapping[Fact[Any], object] = model_facts(self.name, window, output_modes)

    async def __call__(self, request: ModelRequest, ctx: Context, /) -> ModelResponse:
        """Answer from the record.

        Raises:
            JournalMismatch: it has no answer for this path, or one to another request; the message shows the diff.
        """
        outcome = self._next(ctx)
        self._compare(outcome, request)
        if isinstance(outcome, Failure):
            raise as_error(outcome.error)
        response = as_type(outcome.value, ModelResponse)
        if ctx.listens(Delta):
            for delta in deltas_of(fit(response.message)):
                await ctx.emit(Delta(ctx.path, delta))
        return response

    def _next(self, ctx: Context) -> Outcome:
        path = ctx.path
        while path and path not in self._outcomes:
            path = parent_of(path)  # the path may end in an alternative or a layer
        if not path:
            there = ", ".join(list(self._outcomes)[-3:])
            raise JournalMismatch(f"the record holds no answer of a model at {ctx.path} (the latest: {there})")
        place = (ctx.scope.get(RUN_ID) or "", path)
        number = self._asked[place] = self._asked.get(place, 0) + 1
        outcomes = self._outcomes[path]
        return outcomes[min(number, len(outcomes)) - 1]

    def _compare(self, outcome: Outcome, request: ModelRequest) -> None:
        was = outcome.request
        recorded = as_type(was, str) if isinstance(was, Raw) else ""
        current = request.fingerprint()
        if not self._strict or recorded == current:
            return
        change = request.compared(self._journal.entries, outcome.path, recorded) or ("request", recorded, current)
        raise JournalMismatch(f"first divergence at {outcome.path}: {change[0]}\n{difference(change[1], change[2])}")

    def __repr__(self) -> str:
        return f"replay({self.name!r}, {len(self._outcomes)} answers)"


def _read(record: bytes | str | Path) -> bytes:
    if isinstance(record, Path):
        try:
            return record.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"the record {record} cannot be read: {error.strerror}") from error
    return record.encode() if isinstance(record, str) else record
