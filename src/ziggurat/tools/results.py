"""Turn what tools return or raise into results for the conversation: bounded, and always text or parts.

A layer, `process_result`, changes what a tool returned before a model gets it.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import cast, get_args

import msgspec
from msgspec.structs import replace

from ziggurat.core import errors
from ziggurat.core.codec import MAX_DEPTH, encode
from ziggurat.core.context import Context
from ziggurat.core.errors import ToolError, ToolErrorKind
from ziggurat.core.failures import as_fault
from ziggurat.core.service import Service, layer
from ziggurat.core.settings import NonNegativeInt
from ziggurat.messages.message import Audio, File, Image, Text, ToolCall, ToolResult, mended
from ziggurat.messages.usage import estimate_tokens
from ziggurat.messages.validation import problem_in_part

MAX_RESULT = 200_000  # characters of a result that enter the conversation; the rest is cut, with a note
_MAX_KEPT = 10_000_000  # characters of a result before that, which hooks see: `after_tool` may put them elsewhere
_MAX_DATA = 32_000_000  # bytes of images, audio and files in one result; providers accept no larger requests

_MAX_PARTS = 1_000
_KINDS = get_args(ToolErrorKind)
_Part = Text | Image | Audio | File
_PARTS = (Text, Image, Audio, File)
_MAX_NODES = 1_000_000
_MAX_SIZE = 16_000_000
"""Characters and bytes in a returned value before it is encoded; only its beginning is shown anyway."""

_CONTAINERS = (dict, list, tuple, set, frozenset, msgspec.Struct)
_TEXTS = (str, bytes, bytearray)


def result_of(value: object, call: ToolCall) -> ToolResult:
    kind = type(value)
    if kind is str:
        return ToolResult(call.id, call.name, _clean(value), None, call.name)  # type: ignore[arg-type]
    if kind is int:
        return ToolResult(call.id, call.name, str(value), None, call.name)
    if kind is bool or kind is float or value is None:
        return ToolResult(call.id, call.name, _json(value, call), None, call.name)
    try:
        return _encode_value(value, call)
    except Exception as error:
        as_fault(error)
        raise
    except BaseException as error:  # the value's own code, such as its encoder, may raise anything
        raise ToolError(
            f"{call.name} returned a {kind.__name__} that raised {text_of_error(error)} when it was read"
        ) from error


def _encode_value(value: object, call: ToolCall) -> ToolResult:
    if isinstance(value, str):
        return ToolResult(call.id, call.name, _clean(str.__str__(value)), None, call.name)
    if isinstance(value, ToolResult):
        return _of_parts(ToolResult(call.id, call.name, value.content, value.error, value.origin or call.name))
    if isinstance(value, _PARTS):
        value = (value,)
    if isinstance(value, (tuple, list)) and any(isinstance(each, _PARTS) for each in value):
        parts = tuple([Text(each) if isinstance(each, str) else each for each in value])
        if all(isinstance(each, _PARTS) for each in parts):
            return _of_parts(ToolResult(call.id, call.name, parts, None, call.name))
    sets = _measure(value, call)
    return ToolResult(call.id, call.name, _clean(_json(value, call, sets)), None, call.name)


def _of_parts(result: ToolResult) -> ToolResult:
    wrong = problem_in_part(result)
    if wrong is not None:
        raise ToolError(f"{result.name} returned a value that cannot be sent to a model: {wrong}")
    content = _clean(result.content) if isinstance(result.content, str) else _parts(result.content, result.name)
    return ToolResult(result.id, result.name, content, result.error, mended(result.origin or result.name))


def _parts(parts: Sequence[_Part], name: str) -> tuple[_Part, ...]:
    shortened_parts: list[_Part] = []
    text, data = _MAX_KEPT, _MAX_DATA
    for part in parts[:_MAX_PARTS]:
        if isinstance(part, Text):
            shortened_parts.append(Text(_clean(part.text, text)))
            text = max(0, text - len(part.text))
        else:
            shortened_parts.append(part)
            data -= len(part.data or b"")
    if data < 0:
        raise ToolError(f"{name} returned more than {_MAX_DATA:,} bytes of pictures, sound or files; give an address")
    if len(parts) > _MAX_PARTS:
        shortened_parts.append(Text(f"[cut: {len(parts) - _MAX_PARTS} more parts]"))
    return tuple(shortened_parts)


def _json(value: object, call: ToolCall, sets: bool = False) -> str:
    try:
        return encode(_in_order(value) if sets else value).decode()
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        instead = "return text, numbers, lists, mappings, dataclasses, or parts such as Image"
        if hasattr(type(value), "__await__"):
            instead = "await it in the tool"
        raise ToolError(f"{call.name} returned a value that cannot be written as JSON ({error}); {instead}") from error


def _clean(text: str, most: int = _MAX_KEPT) -> str:
    return mended(text if len(text) <= most else f"{text[:most]}\n[cut: {len(text) - most} more characters]")


def in_bounds(result: ToolResult) -> ToolResult:
    """Return a result as it enters the conversation, where it is sent again with each later request."""
    content = result.content
    if isinstance(content, str):
        return result if len(content) <= MAX_RESULT else replace(result, content=_clean(content, MAX_RESULT))
    left, parts = MAX_RESULT, list[_Part]()
    for part in content:
        parts.append(Text(_clean(part.text, left)) if isinstance(part, Text) else part)
        left = max(0, left - len(part.text)) if isinstance(part, Text) else left
    return replace(result, content=tuple(parts))


def _measure(value: object, call: ToolCall) -> bool:
    """Raise for values that are too large when encoded; shared parts count each time they occur."""
    nodes, size, sets = _MAX_NODES, _MAX_SIZE, False
    waiting: list[tuple[object, int]] = [(value, 0)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, _TEXTS):
            size -= len(node)
            children: list[object] = []
        else:
            children = _children(node)
            nodes -= len(children)
        if nodes < 0 or size < 0 or depth > MAX_DEPTH:
            raise ToolError(f"{call.name} returned something too large or too deeply nested to be shown")
        sets = sets or isinstance(node, (set, frozenset))
        waiting.extend([(child, depth + 1) for child in children])
    return sets


def _in_order(value: object) -> object:
    """Turn sets into sorted lists (numbers by size, others by their JSON): a set's order varies between processes."""
    if isinstance(value, dict):
        return {key: _in_order(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_in_order(each) for each in value]
    if not isinstance(value, (set, frozenset)):
        return value
    if all(isinstance(each, (int, float)) for each in value):
        return sorted(value)
    return sorted([_in_order(each) for each in value], key=encode)


def _children(node: object) -> "list[object]":
    if isinstance(node, dict):
        return [*node.keys(), *node.values()]
    if isinstance(node, msgspec.Struct):
        return [*msgspec.structs.astuple(node)]
    if isinstance(node, _CONTAINERS):
        return [*node]  # type: ignore[misc]
    kind = type(node)
    if hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__attrs_attrs__") or hasattr(kind, "model_dump"):
        return [*getattr(node, "__dict__", {}).values()]
    return []


def error_result(error: BaseException, call: ToolCall) -> ToolResult:
    return ToolResult(call.id, call.name, _clean(text_of_error(error)), kind_of(error), call.name)


def kind_of(error: BaseException) -> ToolErrorKind:
    if isinstance(error, errors.InvalidArguments):
        return "invalid_arguments"
    if isinstance(error, ToolError):
        stated = errors.fact_of(error, "kind", str)
        return cast("ToolErrorKind", stated) if stated in _KINDS else "permanent"
    if isinstance(error, (errors.Timeout, TimeoutError)):
        return "timeout"
    if isinstance(error, errors.Denied):
        return "denied"
    return "transient" if errors.is_transient(error) else "permanent"


def ended_by(error: BaseException) -> ToolError:
    return ToolError(f"the tool raised an exception that would end the program: {text_of_error(error)}")


def broken(text: str) -> ToolError:
    return as_fault(ToolError(text))


def presentable(error: BaseException) -> BaseException:
    """Return the error, or a ToolError in its place if its class raises when inspected."""
    try:
        isinstance(error, errors.ZigguratError)
        str(type(error).__name__)
    except BaseException:  # noqa: BLE001 - the error's own code may raise anything
        return broken("the tool raised an error that cannot be read")
    return error


def text_of_error(error: BaseException) -> str:
    """Return an error's text, with its type unless it is one of ours; never raises."""
    if isinstance(error, errors.ZigguratError) and not isinstance(error, errors.ForeignError):
        return errors.text_of(error) or type(error).__name__
    return errors.described(error)


Processor = Callable[[ToolResult, Context], object]
"""Called with the result of a tool and the call's context; an awaitable that it returns is awaited."""


@layer
async def process_result(
    call: ToolCall, ctx: Context, inner: Service[ToolCall, ToolResult], *, by: Processor, above: NonNegativeInt = 0
) -> ToolResult:
    """Change the result of a tool before the model gets it::

        stack(read_page, process_result(by=lambda result, ctx: result.text.lower()))

    Errors pass unchanged. If the function raises, the call fails, as if the tool had raised it. The changed result is
    recorded, so the function is not called again when the run is resumed. Put a `cache` around it to reuse what it
    returned, or inside to reuse what the tool returned.

    Args:
        by: A function of the result, sync or async, such as one that asks an agent. What it returns is the new result,
            as what a tool returns is.
        above: Results of at most so many tokens pass unchanged.
    """
    result = await inner(call, ctx)
    if result.error is not None or (above and estimate_tokens(result.text) <= above):
        return result
    answer = by(result, ctx)
    value = await answer if isinstance(answer, Awaitable) else answer
    return replace(result_of(value, call), origin=result.origin)
