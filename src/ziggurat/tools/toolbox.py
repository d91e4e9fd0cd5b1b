"""Toolbox: the tools of an agent by name, and how their calls are run."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, cast

import msgspec

from ziggurat.core.context import Context, root
from ziggurat.core.errors import ConfigurationError, ToolError
from ziggurat.core.service import Effect, Fact, strongest
from ziggurat.core.settings import PositiveInt, checked
from ziggurat.core.similar import similar
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.model import ToolSpec
from ziggurat.tools.entry import Tool, ToolEntry, ToolSource, ToolStatistics, entry_of, is_source
from ziggurat.tools.permissions import note_unknown

_MAX_LISTED = 50  # names of tools in an error for the model


class Quorum(msgspec.Struct, frozen=True):
    count: int

    def __repr__(self) -> str:
        return f"quorum({self.count})"


Join = Literal["join_all", "fail_fast"] | Annotated[Quorum, msgspec.Meta(title="quorum(n)")]


@checked
def quorum_join(count: PositiveInt) -> Quorum:
    """Wait for `count` calls of a reply to succeed and cancel the rest: ``Toolbox([a, b, c], join=quorum_join(2))``.

    Cancelled calls get a recorded result that says so. If fewer calls succeed, or fewer were made, all finish.
    """
    return Quorum(count)


class Toolbox:
    """The tools of an agent by name, with settings of how the calls of one reply run.

    Args:
        tools: Functions, tools, agents, any of these with layers, or services that state a `SPEC`.
        concurrency: How many calls of one reply may run at once; None for all.
        join: When the other calls of a reply are cancelled: ``"join_all"`` never; ``"fail_fast"`` when one fails;
            ``quorum_join(n)`` when n have succeeded.
        on_error: ``"return"`` gives the error to the model; ``"raise"`` ends the run.

    Raises:
        ConfigurationError: two tools have the same name, or something is not a tool.
    """

    @checked
    def __init__(
        self,
        tools: Annotated[Iterable[Tool], msgspec.Meta(title="list of functions, tools and agents")] = (),
        *,
        concurrency: PositiveInt | None = None,
        join: Join = "join_all",
        on_error: Literal["return", "raise"] = "return",
    ) -> None:
        self.concurrency = concurrency
        self.join = join
        self.on_error = on_error
        self.entries: dict[str, ToolEntry] = {}
        self.sources: tuple[ToolSource, ...] = ()
        for each in tools:
            if is_source(each):
                self.sources += (cast("ToolSource", each),)
            else:
                self._add(entry_of(each))
        self.specs: tuple[ToolSpec, ...] = tuple(entry.spec for entry in self.entries.values())

    def _add(self, entry: ToolEntry) -> None:
        if entry.spec.name in self.entries:
            other = "Agent(..., name=...)" if entry.composite else "@tool(name=...)"
            raise ConfigurationError(f"two tools are named {entry.spec.name!r}; give one of them another name: {other}")
        self.entries[entry.spec.name] = entry

    @property
    def effect(self) -> Effect:
        """The strongest side effect of any of the tools."""
        return strongest([*(entry.service for entry in self.entries.values()), *self.sources])

    def normalize(self, call: ToolCall) -> ToolCall:
        """Return a call with the arguments that its tool will receive; unchanged if it cannot be made."""
        entry = self.entries.get(call.name)
        try:
            return call if entry is None else entry.normalize(call)
        except Exception:  # noqa: BLE001 - a validator may raise anything; the call itself reports it
            return call

    def enough(self, results: Sequence[ToolResult], latest: ToolResult) -> str:
        """Return why the other calls of a reply are cancelled after its latest result; empty if they go on."""
        if self.join == "fail_fast":
            return "" if latest.error is None else "another call of the batch failed"
        if isinstance(self.join, Quorum) and sum(result.error is None for result in results) >= self.join.count:
            return "enough other calls have succeeded"
        return ""

    def unknown(self, name: str) -> str:
        """Return a sentence for the model: there is no such tool, and which names are similar."""
        quoted = repr(name if len(name) <= 60 else name[:57] + "...")
        if not self.entries:
            return f"unknown tool {quoted}: there are no tools"
        near = similar(name, self.entries, 3)
        more = len(self.entries) - _MAX_LISTED
        known = ", ".join(list(self.entries)[:_MAX_LISTED]) + (f" and {more:,} more" if more > 0 else "")
        hint = f"did you mean {', '.join(near)}?" if near else f"there are: {known}"
        return f"unknown tool {quoted}; {hint}"

    def unknown_tool(self, name: str, ctx: Context) -> ToolError:
        """Return the error of a call of a tool that does not exist, and record the call in the permission log."""
        note_unknown(name, ctx)
        return ToolError(self.unknown(name), kind="not_found")

    async def call(
        self, name: str, arguments: Mapping[str, Any] | str = "{}", ctx: Context | None = None
    ) -> ToolResult:
        """Call a tool by its name, outside of an agent: without approvals, hooks and a record, but counted.

        Args:
            name: The name of the tool.
            arguments: The arguments by name, or as JSON.
            ctx: The context of the call; by default one outside of all runs.

        Raises:
            ToolError: there is no such tool, or it raised this error.
            InvalidArguments: the arguments do not fit.
        """
        ctx = root("toolbox") if ctx is None else ctx
        entry = self.entries.get(name)
        if entry is None:
            raise self.unknown_tool(name, ctx)
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        call, started = ToolCall("call", name, text), ctx.clock.monotonic()
        result = ToolResult(call.id, name, "", "permanent")
        try:
            result = await entry.service(entry.normalize(call), ctx.under(name))
        finally:
            entry.statistics.add(ctx.clock.monotonic() - started, result)
        return result

    def only(self, *names: str) -> "Toolbox":
        """Return a toolbox with only these tools.

        Raises:
            ConfigurationError: there is no tool with one of the names.
        """
        return self._scoped(names, lambda name: name in names)

    def without(self, *names: str) -> "Toolbox":
        """Return a toolbox with all but these tools.

        Raises:
            ConfigurationError: there is no tool with one of the names.
        """
        return self._scoped(names, lambda name: name not in names)

    def joined(self, other: "Toolbox") -> "Toolbox":
        """Return a toolbox with the tools of another one besides, and the settings and statistics of this one.

        Raises:
            ConfigurationError: both have a tool of the same name.
        """
        box = self._scoped((), lambda _: True)
        for entry in other.entries.values():
            box._add(entry)
        box.specs = (*self.specs, *other.specs)
        box.sources = (*self.sources, *other.sources)
        return box

    def _scoped(self, names: tuple[str, ...], keep: Callable[[str], bool]) -> "Toolbox":
        for name in names:
            if name not in self.entries:
                raise ConfigurationError(self.unknown(name))
        box = Toolbox((), concurrency=self.concurrency, join=self.join, on_error=self.on_error)
        for name, entry in self.entries.items():
            if keep(name):
                box._add(entry)
        box.specs = tuple(entry.spec for entry in box.entries.values())
        box.sources = self.sources
        return box

    @property
    def statistics(self) -> dict[str, ToolStatistics]:
        """The statistics of each tool; toolboxes made with `only` and `without` share them."""
        return {name: entry.statistics for name, entry in self.entries.items()}

    def __len__(self) -> int:
        return len(self.entries)

    def __bool__(self) -> bool:
        return bool(self.entries or self.sources)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __repr__(self) -> str:
        return f"Toolbox({', '.join(self.entries)})"


TOOLS: Fact[Toolbox | None] = Fact("tools", None)
