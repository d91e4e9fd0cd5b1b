"""The variables of a plan: what its nodes read and write, how texts refer to them, and conditions on them."""

import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from ziggurat.agents.runnable import Runnable
from ziggurat.core import codec
from ziggurat.core.codec import canonical, plain
from ziggurat.core.context import Context
from ziggurat.core.errors import ConfigurationError, InvalidArguments
from ziggurat.core.failures import call_given
from ziggurat.core.settings import CheckedStruct, NonEmptyText, checked
from ziggurat.tools.arguments import read
from ziggurat.tools.schema import schema_of

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")

Variables = Mapping[str, Any]
"""The values that the nodes of a plan have in common, by name."""

_REFERENCE = re.compile(r"\{(\{[A-Za-z_]\w*\})\}|\{([A-Za-z_]\w*)\}")


def fill(template: Any, variables: Variables, where: str) -> Any:
    """Replace ``{name}`` in texts; one that is nothing but ``"{name}"`` becomes the value itself, with its type."""

    def filled(text: str) -> Any:
        whole = _REFERENCE.fullmatch(text)
        if whole is not None and whole[2]:
            return _value(whole[2], variables, where)
        return _REFERENCE.sub(lambda match: match[1] or text_of_value(_value(match[2], variables, where)), text)

    return _with_texts(template, filled)


def escaped(template: Any, known: Collection[str] = ()) -> Any:
    """Return a text, or data with texts in it, whose references are no references, except those to known variables."""
    return _with_texts(
        template,
        lambda text: _REFERENCE.sub(lambda match: match[0] if match[2] in known else f"{{{match[0]}}}", text),
    )


def _with_texts(template: Any, change: Callable[[str], Any]) -> Any:
    if isinstance(template, str):
        return change(template)
    if isinstance(template, Mapping):
        return {name: _with_texts(value, change) for name, value in template.items()}
    return [_with_texts(each, change) for each in template] if isinstance(template, (list, tuple)) else template


def items_of(over: str, variables: Variables, where: str) -> list[Any]:
    if over not in variables:
        raise InvalidArguments(
            f"{where} goes over the variable {over!r}, a name without braces, which has no value there; there are: "
            f"{', '.join(variables) or 'none'}"
        )
    items = variables[over]
    if isinstance(items, str):
        with suppress(InvalidArguments):
            items = read(items)
    if not isinstance(items, (list, tuple)):
        raise InvalidArguments(f"{where} goes over {over!r}, which is no list, nor JSON of one: {items!r:.200}")
    return list(items)


def _value(name: str, variables: Variables, where: str) -> Any:
    try:
        return variables[name]
    except KeyError:
        raise InvalidArguments(
            f"{where} refers to the variable {name!r}, which has no value there; there are: "
            f"{', '.join(variables) or 'none'}. Write {{{{{name}}}}} for the text {{{name}}}"
        ) from None


def text_of_value(value: object) -> str:
    if isinstance(value, str):
        return value
    return "" if value is None else canonical(value).decode()


Predicate = Callable[[Variables], bool]
"""Whether a condition holds for some variables; it must depend on nothing else."""


class Asked(CheckedStruct, frozen=True, eq=False):
    agent: Runnable
    question: NonEmptyText


Condition = str | Asked | Annotated[Predicate, Meta(title="function of the variables")]
"""``"variable:substring"``, a function of the variables (see `when`), or what `agent_condition` has made."""


def contains(condition: str, variables: Variables) -> bool:
    """Return whether a variable contains a text, for a condition such as ``"status:ok"``.

    Spaces around the name and the text are ignored. Without a colon, or without that variable, it does not hold.

    >>> contains("status:ok", {"status": "ok running"})
    True
    """
    name, colon, text = condition.partition(":")
    name = name.strip()
    return bool(colon) and name in variables and text.strip() in text_of_value(variables[name])


@checked
def when(variable: NonEmptyText, kind: "TypeForm[T]", test: Callable[[T], bool]) -> Predicate:
    """Return a condition on the value of one variable, which is read as a type first.

    ::

        Branch(when("score", float, lambda score: score >= 0.8), publish, refine)

    Without that variable, the condition does not hold.

    Raises:
        ConfigurationError: values of this type cannot be read from plain data.
        InvalidArguments: during the run, if the value is not of this type.
    """
    schema_of(kind)

    def predicate(variables: Variables) -> bool:
        if variable not in variables:
            return False
        value = variables[variable]
        if not (isinstance(kind, type) and isinstance(value, kind)):
            try:
                value = codec.convert(plain(value), kind, strict=False)
            except (msgspec.ValidationError, TypeError) as error:
                raise InvalidArguments(f"the variable {variable!r} does not fit: {error}") from error
        return test(value)

    name = str(getattr(test, "__name__", "<lambda>"))
    predicate.__name__ = f"a test of {variable}" if name == "<lambda>" else f"{name}({variable})"
    return predicate


@checked
def agent_condition(agent: Runnable[Any], question: NonEmptyText) -> Asked:
    """Return a condition that an agent decides, with an answer of the type bool.

    ::

        judge = Agent("demo", output=bool)
        Loop(write, until=agent_condition(judge, "Is this text free of errors? {draft}"), max_rounds=5)

    The question may refer to variables. The answer is recorded, as that of every agent. If it is no bool, the node
    fails.
    """
    return Asked(agent, question)


async def holds(condition: Condition, variables: Variables, where: str, ctx: Context) -> bool:
    if isinstance(condition, str):
        return contains(condition, variables)
    if isinstance(condition, Asked):
        run = await condition.agent.run(text_of_value(fill(condition.question, variables, where)))
        answer, advice = run.raise_for_stop().output, f"make it with Agent(..., output=bool), {condition.agent.name}"
    else:
        answer, advice = call_given(condition, ctx, variables), "return True or False"
    if not isinstance(answer, bool):
        raise ConfigurationError(f"the condition of {where} gave {answer!r:.100}, not True or False: {advice}")
    return answer


def condition_text(condition: Condition) -> str:
    if isinstance(condition, str):
        return condition
    if isinstance(condition, Asked):
        return f"{condition.agent.name}: {condition.question}"
    name = str(getattr(condition, "__name__", type(condition).__name__))
    return "a test" if name == "<lambda>" else name
