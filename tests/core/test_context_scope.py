import pytest

from ziggurat import ConfigurationError, Key
from ziggurat.core.context import Scope

DATABASE = Key[str]("database")
COUNT = Key[int]("count")


@pytest.mark.parametrize("name", [None, 3, "", b"x"])
def test_a_key_without_a_name_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError, match="a key has a name"):
        Key(name)  # type: ignore[arg-type]


def test_a_scope_is_never_changed() -> None:
    first = Scope()
    second = first.with_value(DATABASE, "x.db")
    assert second[DATABASE] == "x.db"
    assert first.get(DATABASE) is None
    values: dict[Key[object], object] = {COUNT: 1}  # type: ignore[dict-item]
    scope = Scope(values)
    values.clear()
    assert scope.get(COUNT) == 1


def test_many_values_at_once_win_over_those_there() -> None:
    scope = Scope().with_value(DATABASE, "old").with_values({DATABASE: "new", COUNT: 3})
    assert scope[DATABASE] == "new"
    assert scope[COUNT] == 3


def test_keys_of_one_name_do_not_clash() -> None:
    other = Key[str]("database")
    scope = Scope().with_value(DATABASE, "mine").with_value(other, "yours")
    assert (scope[DATABASE], scope[other]) == ("mine", "yours")
    with pytest.raises(ConfigurationError, match="another key of this name"):
        Scope().with_value(Key[str](DATABASE.name), "x.db")[DATABASE]


def test_a_missing_value_is_named_and_no_value_is_shown() -> None:
    with pytest.raises(ConfigurationError, match="'database'"):
        Scope().with_value(COUNT, 0)[DATABASE]
    assert Scope().with_value(COUNT, 0)[COUNT] == 0
    assert repr(Scope().with_value(DATABASE, "secret").with_value(COUNT, 1)) == "Scope(count, database)"
    assert repr(DATABASE) == "Key('database')"
