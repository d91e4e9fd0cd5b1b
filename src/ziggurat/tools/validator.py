"""SchemaValidator: validate values against JSON Schema, without network access and in bounded time."""

from typing import TYPE_CHECKING, Any

import msgspec

from ziggurat.core.errors import ConfigurationError, MissingExtra
from ziggurat.tools.schema_cost import MAX_WORK, Unfolding, weight_of_patterns
from ziggurat.tools.schema_errors import schema_errors

if TYPE_CHECKING:
    import jsonschema_rs

MAX_SCHEMA = 500_000
"""Bytes of JSON that a schema may have."""

MAX_PROBLEMS = 20
"""Problems listed for one value; the rest are only counted."""

MAX_MATCHING = 1_000_000
"""Characters of a value times the weight of the patterns that they may be matched with."""

MAX_PATTERNS = 1_000
"""Weight of all patterns of a schema together."""

_ALL_TOLD = 20_000
"""Checks of one value up to which all problems are collected."""

_FIRST_TOLD = 500_000
"""Checks of one value up to which the first problem is searched for."""

_PATTERN_SIZE = 256 * 1024
"""Bytes that one pattern may take when it is compiled."""


_CACHE_SIZE = 64 * 1024
"""Bytes that the states of one pattern may take while it is matched."""


class SchemaValidator:
    """Validates plain JSON values against a JSON Schema: draft 2020-12, or the draft that its ``$schema`` names.

    Nothing is ever fetched, and patterns are matched in linear time. Formats are annotations, as in the standard, and
    are not checked.

    ::

        validator = SchemaValidator({"type": "object", "required": ["city"]})
        validator.problems({})          # ['city: missing (required)']

    Args:
        schema: The schema; it is compiled once.
        what: What the schema describes, for the text of errors.

    Raises:
        ConfigurationError: it is not a valid schema, refers to something outside itself, names an unknown dialect, has
            a pattern with look-around or back-references, or is too large.
        MissingExtra: the extra ``schemas`` is not installed.
    """

    __slots__ = ("_compiled", "_unfolding", "schema", "what")

    def __init__(self, schema: dict[str, Any] | bool, what: str = "the schema") -> None:
        if not isinstance(what, str):
            raise ConfigurationError(f"SchemaValidator(what=...) is a text; got {what!r}")
        self.schema: dict[str, Any] | bool = schema
        self.what: str = what
        self._compiled = _compiled(schema, what)
        self._unfolding = Unfolding.of(schema, what)

    def problems(self, value: object) -> list[str]:
        """Return what is wrong with a value, one line per problem: path, what was expected, what was given.

        Empty if it fits. At most `MAX_PROBLEMS` lines of bounded length, and one that counts the rest.
        """
        bounds = self._unfolding
        if not bounds.modest and bounds.work(value) > MAX_WORK:
            return ["arguments: nested too deep, or too long, for a schema with so many alternatives"]
        if bounds.patterns and (matching := bounds.matching(value)) > MAX_MATCHING:
            times = matching / MAX_MATCHING
            return [f"arguments: {times:.1f} times as much text as can be matched with the patterns of the schema"]
        if self._compiled.is_valid(value):
            return []
        return self._problems_of(value, bounds.work(value))

    def _problems_of(self, value: object, work: int) -> list[str]:
        """Return all problems, or only the first if finding all would take long."""
        if work > _FIRST_TOLD:
            return ["arguments: do not fit the schema; there is too much of them to say where"]
        if work <= _ALL_TOLD:
            return schema_errors(self._compiled.iter_errors(value), self.schema, MAX_PROBLEMS)
        from jsonschema_rs import ValidationError

        try:
            self._compiled.validate(value)
        except ValidationError as error:
            return schema_errors([error], self.schema, MAX_PROBLEMS)
        return []

    def __repr__(self) -> str:
        return f"SchemaValidator({self.what!r})"


def _compiled(schema: dict[str, Any] | bool, what: str) -> "jsonschema_rs.Validator":
    try:
        import jsonschema_rs
    except ImportError as error:
        raise MissingExtra("Holding a call to a JSON Schema of your own", "schemas") from error
    try:
        size = len(msgspec.json.encode(schema))
        if size > MAX_SCHEMA:
            raise ConfigurationError(f"{what} has {size:,} bytes of JSON; a schema may have {MAX_SCHEMA:,}")
        weight = weight_of_patterns(schema)
        if weight > MAX_PATTERNS:
            raise ConfigurationError(f"{what} has patterns of the weight {weight:,}; they may have {MAX_PATTERNS:,}")
        return jsonschema_rs.validator_for(
            schema,
            offline=True,
            validate_formats=False,
            pattern_options=jsonschema_rs.RegexOptions(size_limit=_PATTERN_SIZE, dfa_size_limit=_CACHE_SIZE),
            mask="it",
        )
    except jsonschema_rs.ValidationError as error:
        raise ConfigurationError(f"{what} is refused: {_refusal(error)}") from None
    except (RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{what} is not a JSON Schema that can be used: {error}") from None


def _refusal(error: "jsonschema_rs.ValidationError") -> str:
    """Return why a schema is refused, and what to do."""
    if error.kind.name == "$ref" or type(error.kind).__name__ == "Referencing":
        reason = error.message.split("\n")[0][:300]
        if "meta-schema" in reason:
            return f"$schema names a dialect that is not known here: {reason}"
        return f"$ref must stay within the schema, as nothing is ever fetched; put what is meant under $defs: {reason}"
    if error.instance_path and (error.instance_path[-1] == "pattern" or "patternProperties" in error.instance_path):
        place = "/".join(map(str, error.instance_path))
        return (
            f"the pattern at {place} cannot be matched in linear time and bounded memory: look-around and "
            "back-references are not taken, nor very long repetitions, nor what is not a regular expression"
        )
    return "; ".join(schema_errors([error], None, 1))
