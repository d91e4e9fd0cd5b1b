import re
import time
from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from tests.wrong import wrong
from ziggurat import ConfigurationError
from ziggurat.middleware.secrets import WINDOW, Secrets, StreamMask, bounded

PATTERNS: list[str | re.Pattern[str]] = [r"\bACC-[0-9]{4,8}\b", re.compile("code [a-z]{2,9}", re.IGNORECASE)]
ALL = Secrets(["open sesame", 'a"b/c\\d'], PATTERNS, True, True, "#")
PIECES = [
    "sk-", "abc", "x" * 17, "open ", "sesame", " ", "ACC-", "1234", "-----BEGIN ", "PRIVATE KEY-----", "-----END ",
    "bearer ", "a@b", ".org", "://u:p@", "你",
]  # fmt: skip
EVIL = [
    "sk-", "a", "a@", "a.", "eyJ", "://a:", "1", "basic a", "ACC-", "code ", "bearer ", "-----BEGIN PRIVATE KEY-----",
]  # fmt: skip
TEXT = (
    'open sesame, a"b/c\\d; ACC-1234 XACC-12345 Code blue open ses sk-abcdefghijklmnopqrst! Bearer abc123abc123abc '
    "a.b@c.example.org http://u:p4ss@h/x -----BEGIN PRIVATE KEY-----\nabc=\n-----END PRIVATE KEY----- "
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n你好sk-abcdefghijklmnopqrst"
)
MASKED = (
    "#, #; # XACC-12345 # open ses #! # # http://#@h/x # "
    "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----\n你好#"
)


def in_pieces(secrets: Secrets, pieces: list[str]) -> str:
    incoming = StreamMask(secrets)
    return "".join(map(incoming.push, pieces)) + incoming.flush()


def test_secrets_are_masked_and_nothing_else_however_it_is_cut() -> None:
    assert ALL.masked(TEXT) == MASKED
    for cut in range(len(TEXT) + 1):
        assert in_pieces(ALL, [TEXT[:cut], TEXT[cut:]]) == MASKED
    assert in_pieces(ALL, list(TEXT)) == MASKED


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_pieces_and_the_whole_are_masked_alike(pieces: list[str]) -> None:
    assert in_pieces(ALL, pieces) == ALL.masked("".join(pieces))


def test_a_secret_is_found_as_json_and_as_addresses_write_it() -> None:
    secrets = Secrets(['p"ä/ss'], [], False, False, "#")
    for text in ('{"k":"p\\"ä/ss"}', '{"k":"p\\"\\u00e4/ss"}', '"{\\"k\\":\\"p\\\\\\"ä/ss\\"}"', "x?k=p%22%C3%A4%2Fss"):
        assert "ss" not in secrets.masked(text).replace("sss", "")


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.parametrize("evil", EVIL)
def test_no_text_takes_long(evil: str) -> None:
    """The time is compared with that of reading each character, so the machine's speed does not matter."""
    text = (evil * (50_000 // len(evil)))[:50_000]
    pieces = [text[at : at + 50] for at in range(0, len(text), 50)]
    looking = max(seconds(lambda: sum(map(ord, text))) for _ in range(3))
    assert seconds(lambda: ALL.masked(text)) < 200 * looking
    assert seconds(lambda: in_pieces(ALL, pieces)) < 600 * looking


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (r"(a+)+$", "+"), (r"a*", "*"), (r"a{2,}", "{2,}"), (r"a{,}", "{,}"), (r"a}+", "+"), (r"[]a]+", "+"),
        (r"(a{1,20}){1,20}", "){"), (r"(?:a|a){1,30}b", "){"), (r"(?:a){,9}", "){"),
        (r"[a-z]{1,64}@[a-z]{1,64}", "4096"), (r"(?:a|a){9}b", "512"), (r"(?:abc){200}", "600"), ("((a){3}){3}", "){"),
        ("(?:a|b)" * 9, "512"), ("a?" * 9 + "b", "512"), (r"^key", "^"), (r"key$", "$"), (r"key\Z", "Z"),
        (r"key(?= x)", "(?="), (r"(?<!x)key", "(?<"), (r"(a)\1", "1"), (r"(?P<name>key)", "(?P"), (r"(?x:a +)", "(?x"),
        (r"a{0,9}", "nothing"), (r"\b", "nothing"), (r"\B[0-9]?", "nothing"), (r"a{513}", "513"),
        (re.compile("a # +", re.VERBOSE), "verbose"), ("[", "regular expression"), (wrong(b"key"), "bytes"),
    ],
)  # fmt: skip
def test_what_could_hang_is_refused(pattern: str | re.Pattern[str], why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        bounded(pattern)


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r"\bACC-[0-9]{6,10}\b", "ACC-123456"),
        (r"(?:DE|FR)[0-9]{2} ?[0-9]{4}", "DE12 3456"),
        (r"[0-9]{4}(?:[ -]?[0-9]{4}){3}", "1234 5678 9012 3456"),
        (r"[*+^$]\+\*{1,3}(?>a|bc)?[]\]+]{,2}\\", "^+**bc]+\\"),
        (r"[a-z]{1,64}+@[a-z]{1,64}+", "a@b"),
        (re.compile("Secret", re.IGNORECASE), "SECRET"),
        (rf"x.{{{WINDOW - 1}}}", "x" * WINDOW),
    ],
)
def test_bounded_patterns_are_taken(pattern: str | re.Pattern[str], text: str) -> None:
    source, longest = bounded(pattern)
    assert re.fullmatch(source, text)
    assert len(text) <= longest <= WINDOW


def test_nothing_to_redact_is_a_mistake() -> None:
    with pytest.raises(ConfigurationError, match="nothing to redact"):
        Secrets([], [], False, False, "#")


KEYS_ONLY = Secrets((), (), True, False, "[REDACTED]")
PRIVATE_KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIE-ab/cd=\n" * 400 + "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("header", [8, 1_990, 2_000, 2_001, 20_000])
def test_a_token_with_a_header_of_any_length_is_masked(header: int) -> None:
    token = f"eyJ{'a' * header}.{'b' * 40}.{'c' * 40}"
    assert KEYS_ONLY.masked(f"it is {token}, keep it") == "it is [REDACTED], keep it"


@pytest.mark.parametrize("size", [1, 2, 7, 1_000, 10_000])
@pytest.mark.parametrize("after", [" and so on" * 3, " and so on" * 2_000, ""])
def test_a_private_key_in_pieces_of_any_size_is_masked_and_what_follows_passes(size: int, after: str) -> None:
    text = f"see {PRIVATE_KEY}{after}"
    incoming = StreamMask(KEYS_ONLY)
    shown = [incoming.push(text[at : at + size]) for at in range(0, len(text), size)]
    assert "".join(shown) + incoming.flush() == f"see [REDACTED]{after}"
