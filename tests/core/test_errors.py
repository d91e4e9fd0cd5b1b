from ziggurat import ConfigurationError
from ziggurat.errors import RunExists


def test_of_a_long_value_in_a_message_the_middle_is_left_out() -> None:
    told = str(ConfigurationError(f"name is a text, got {'x' * 100_000!r}; give a shorter one"))
    assert len(told) < 2_100
    assert told.startswith("name is a text, got 'xxx")
    assert " [...] " in told
    assert told.endswith("xxx'; give a shorter one")


def test_what_is_not_long_is_told_whole() -> None:
    for text in ("", "short", "x" * 2_000):
        assert str(RunExists(text)) == text
