"""Processing of results: a layer that changes what a tool returned before a model gets it."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from ziggurat.core.context import Context
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import NonEmptyText, NonNegativeInt, checked
from ziggurat.messages.message import ToolCall, ToolResult
from ziggurat.messages.usage import estimate_tokens
from ziggurat.tools.results import result_of

Processor = Callable[[ToolResult, Context], object]
"""Called with the result of a tool and the call's context; an awaitable that it returns is awaited."""


@layer
async def process_result(
    call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult], *, by: Processor, above: NonNegativeInt = 0
) -> ToolResult:
    """Change the result of a tool before the model gets it::

        stack(search, process_result(by=select_fields("total", "hits.*.title")))
        stack(read_page, process_result(by=lambda result, ctx: result.text.lower()))

    Errors pass unchanged. If the function raises, the call fails, as if the tool had raised it. The changed result is
    recorded, so the function is not called again when the run is resumed. Put a `cache` around it to reuse what it
    returned, or inside to reuse what the tool returned.

    Args:
        by: A function of the result, sync or async, such as one that asks an agent. What it returns is the new result,
            as what a tool returns is.
        above: Results of at most so many tokens pass unchanged.

    Raises:
        ConfigurationError: a setting has a wrong value.
    """
    result = await inner(call, ctx)
    if result.error is not None or (above and estimate_tokens(result.text) <= above):
        return result
    answer = by(result, ctx)
    value = await answer if isinstance(answer, Awaitable) else answer
    return replace(result_of(value, call), origin=result.origin)


@checked
def select_fields(*paths: NonEmptyText) -> Processor:
    """Return a processor that keeps some fields of a JSON result, as an object with the values by path.

    A path is made of keys and indices, separated by dots; ``*`` stands for all elements of a list or an object, and
    gives a list. A path that leads nowhere is left out. A result that is no JSON object or list passes unchanged.

    >>> from ziggurat.core import root
    >>> result = ToolResult("id", "search", '{"total": 2, "hits": [{"title": "a", "page": 1}, {"title": "b"}]}')
    >>> select_fields("total", "hits.*.title", "hits.0.page", "more")(result, root())
    {'total': 2, 'hits.*.title': ['a', 'b'], 'hits.0.page': 1}

    Args:
        paths: Such as ``"total"`` or ``"hits.*.title"``.

    Raises:
        ConfigurationError: a path is no text, or empty.
    """
    return partial(_select, {path: path.split(".") for path in paths})


def _select(paths: dict[str, list[str]], result: ToolResult, ctx: Context) -> object:
    value = result.value()
    if not isinstance(value, (dict, list)):
        return result
    found = {path: list(_values_at(value, keys)) for path, keys in paths.items()}
    return {path: values if "*" in paths[path] else values[0] for path, values in found.items() if values}


def _values_at(value: object, keys: Sequence[str]) -> Iterator[object]:
    """Yield what a path leads to: one value at most, unless there is a star in it."""
    if not keys:
        yield value
        return
    key, rest = keys[0], keys[1:]
    children: Sequence[object] = ()
    if isinstance(value, dict):
        children = list(value.values()) if key == "*" else [value[key]] if key in value else ()
    elif isinstance(value, list):
        children = value if key == "*" else value[int(key) :][:1] if key.isdecimal() else ()
    for child in children:
        yield from _values_at(child, rest)
