"""The work that a schema can cause is computed in advance, and never underestimated."""

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings, strategies as st

from tests.samples import amount
from ziggurat import ConfigurationError
from ziggurat.tools.validator import MAX_WORK, Unfolding, weight_of_patterns


def _fan(levels: int) -> dict[str, Any]:
    """Return a schema with two references at each level: 2 ** levels checks of one value."""
    defs: dict[str, Any] = {f"d{each}": {"allOf": [{"$ref": f"#/$defs/d{each + 1}"}] * 2} for each in range(levels)}
    return {"$defs": {**defs, f"d{levels}": {"type": "string"}}, "$ref": "#/$defs/d0"}


def _tree(arms: int) -> dict[str, Any]:
    """Return a recursive schema that visits each child once for every alternative."""
    arm = {"properties": {"x": {"$ref": "#"}}}
    return {"anyOf": [{**arm, "title": str(number)} for number in range(arms)]}


def _nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"x": value}
    return value


def test_common_schemas_are_modest() -> None:
    json_like: dict[str, Any] = {
        "anyOf": [
            {"type": ["string", "number", "boolean", "null"]},
            {"type": "array", "items": {"$ref": "#"}},
            {"type": "object", "additionalProperties": {"$ref": "#"}},
        ]
    }
    pair = {"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}
    listed = {"properties": {"children": {"type": "array", "items": {"$ref": "#"}}}}
    for schema in ({}, True, {"type": "object"}, json_like, pair, listed):
        assert Unfolding.of(schema, "it").modest
    assert Unfolding.of(json_like, "it").breadth == 5


def test_references_that_fan_out_or_form_long_chains_are_refused() -> None:
    assert Unfolding.of(_fan(3), "it").breadth == 8 + 2 * 7 + 8
    for levels in (17, 40, 60):
        with pytest.raises(ConfigurationError, match="unfolds"):
            Unfolding.of(_fan(levels), "it")
    defs: dict[str, Any] = {f"d{each}": {"$ref": f"#/$defs/d{each + 1}"} for each in range(5_000)}
    with pytest.raises(ConfigurationError, match="more than 200 references"):
        Unfolding.of({"$defs": {**defs, "d5000": {}}, "$ref": "#/$defs/d0"}, "it")


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]}, "b": {"not": {"$ref": "#/$defs/a"}}}},
        {"$defs": {"a": {"$anchor": "here", "allOf": [{"$ref": "#here"}]}}},
        {"$defs": {"a": {"$id": "https://a.example/s.json", "allOf": [{"$ref": "s.json"}]}}},
    ],
)
def test_a_reference_in_a_circle_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="leads back to itself"):
        Unfolding.of(schema, "it")


def test_work_grows_with_depth_where_a_recursion_has_alternatives() -> None:
    three = Unfolding.of(_tree(3), "it")
    assert not three.modest
    assert three.growth == 3
    assert [three.work(_nested(depth)) for depth in (0, 1, 2)] == [5, 5 + 15, 5 + 15 + 45]
    assert three.work(_nested(90)) > MAX_WORK


def test_patterns_are_weighed() -> None:
    def weight(*patterns: str) -> int:
        return Unfolding.of({"allOf": [{"pattern": each} for each in patterns]}, "it").patterns

    assert weight() == 0
    assert weight("^a+$") == 1
    assert weight("^a+$", "^b$") == 2
    assert weight("^[0-9]{4}-[0-9]{2}-[0-9]{2}$") == 1
    assert weight("[ab]*a[ab]{1000}") == 11
    assert weight("([ab]{100}){100}") == 101
    assert Unfolding.of({"patternProperties": {"^a": {}, "b": {}}}, "it").patterns == 2


class _Probe:
    """A keyword that counts its evaluations."""

    count = 0

    def __init__(self, parent_schema: object, value: object, schema_path: object) -> None:
        del parent_schema, value, schema_path

    def validate(self, instance: object) -> None:
        del instance
        _Probe.count += 1


def test_text_is_measured_at_every_level() -> None:
    assert Unfolding.of({"properties": {"x": {"pattern": "a"}}}, "it").matching({"x": "abc", "yy": ["d"]}) == 3 + 3 + 1
    tree = {"anyOf": [{"properties": {"x": {"$ref": "#"}}, "pattern": "a"} for _ in range(2)]}
    assert Unfolding.of(tree, "it").patterns == 2
    assert Unfolding.of(tree, "it").matching({"x": {"x": "abc"}}) == 2 * 1 + 4 * 1 + 8 * 3
    assert weight_of_patterns({"items": [{"pattern": "a"}, {"patternProperties": {"b": True, "c{300}": {}}}]}) == 6


REFERENCES = st.sampled_from("abc").map(lambda name: {"$ref": f"#/$defs/{name}", "probe": 1})
LEAVES = st.sampled_from(["object", "array", "string"]).map(lambda name: {"type": name, "probe": 1})


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    arms = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(st.sampled_from("xy"), inner, min_size=1, max_size=2)
    single = st.sampled_from(
        ["not", "items", "contains", "additionalProperties", "propertyNames", "if", "then", "else"]
    )
    made = st.one_of(
        st.tuples(st.sampled_from(["allOf", "anyOf", "oneOf"]), arms),
        st.tuples(st.sampled_from(["properties", "dependentSchemas"]), named),
        st.tuples(single, inner),
        st.tuples(st.just("patternProperties"), inner.map(lambda each: {"x": each})),
        st.tuples(st.just("prefixItems"), arms),
    )
    return st.lists(made, min_size=1, max_size=3).map(lambda pairs: {"probe": 1, **dict(pairs)})


SCHEMAS = st.recursive(st.one_of(REFERENCES, LEAVES), _grown, max_leaves=5)
VALUES = st.recursive(
    st.just("s"), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner) | st.lists(inner, max_size=3)
)


@settings(max_examples=amount(80, 200), deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys("abc", SCHEMAS)), VALUES)
def test_no_value_needs_more_checks_than_was_foreseen(defs: dict[str, Any], value: Any) -> None:
    schema = {"$defs": defs, "$ref": "#/$defs/a"}
    validator = jsonschema_rs.validator_for(schema, keywords={"probe": _Probe})
    try:
        foreseen = Unfolding.of(schema, "it").work(value)
    except ConfigurationError:
        return
    _Probe.count = 0
    validator.is_valid(value)
    assert _Probe.count <= foreseen
