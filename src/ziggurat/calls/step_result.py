"""StepResult: how the results of a step are recorded as plain data, and read back."""

import inspect
from collections.abc import Awaitable, Callable
from functools import cached_property
from types import NoneType
from typing import Any, get_type_hints

from ziggurat.core.codec import Raw
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, JournalMismatch
from ziggurat.core.service import must_be
from ziggurat.journal.journal import LocalJournal
from ziggurat.tools.parameter import Parameter

_AS_THEY_ARE = frozenset({str, int, bool, NoneType, object})
"""Types whose values JSON has as they are."""


class StepResult:
    """The results of one step."""

    def __init__(self, name: str, kind: Any) -> None:
        self._name = name
        self.kind = kind
        self._checked = False  # in memory, the first value shows whether its type can be recorded

    @classmethod
    def of(cls, function: Callable[..., Any], name: str) -> "StepResult":
        """Make it of what the function is annotated with."""
        try:
            return cls(name, get_type_hints(inspect.unwrap(function), include_extras=True)["return"])
        except NameError as error:
            raise ConfigurationError(f"the annotations of the step {name} cannot be read: {error}") from error

    @cached_property
    def form(self) -> Parameter | None:
        """How they are written and read; None for those of Ziggurat, and for texts and whole numbers."""
        kind = self.kind
        own = isinstance(kind, type) and (kind in _AS_THEY_ARE or kind.__module__.partition(".")[0] == "ziggurat")
        return None if own else Parameter.of_result(f"the result of the step {self._name}", kind)

    async def once(
        self,
        ctx: Context,
        request: Any,
        call: Callable[[Any, Context], Awaitable[Any]],
        journal: LocalJournal,
        composite: bool,
    ) -> Any:
        """Return the recorded result of a call, or make the call and record its result."""
        record = journal.find(ctx.path)
        written = record is not None and record.result is not None and isinstance(record.result.value, Raw)
        if not (journal.durable or written):
            called = call if self._checked else self._first(call)
            return await journal.once(ctx, self._name, request, called, self.kind, composite)
        form = self.form
        if form is None:
            return await journal.once(ctx, self._name, request, call, self.kind, composite)
        live: list[Any] = []

        async def recorded(request: Any, ctx: Context) -> Any:
            value = await call(request, ctx)
            must_be(value, self.kind, self._name, ctx)
            data = self._data(form, value, ctx)
            live.append(value)
            return data

        data: Any = await journal.once(ctx, self._name, request, recorded, object, composite)
        try:
            return live[0] if live else form.revive(data)
        except ValueError as error:
            why = f"the result of {ctx.path} ({self._name}) does not fit its type any more: {error}"
            raise JournalMismatch(why) from error

    def _first(self, call: Callable[[Any, Context], Awaitable[Any]]) -> Callable[[Any, Context], Awaitable[Any]]:
        async def checked(request: Any, ctx: Context) -> Any:
            value = await call(request, ctx)
            try:
                form = self.form
            except ConfigurationError:  # it has no JSON, and needs none in memory
                form = None
            if form is not None:
                self._data(form, value, ctx)
            self._checked = True
            return value

        return checked

    def _data(self, form: Parameter, value: object, ctx: Context) -> object:
        try:
            return form.recorded(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{self._name} at {ctx.path}: {error}") from None
