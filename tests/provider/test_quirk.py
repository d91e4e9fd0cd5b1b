"""Tests of quirks: combined, limited to some requests, parsed from a command line, and listed."""

import re
from collections.abc import Callable
from itertools import product

import pytest

from tests import provider as kit
from tests.provider import parsed, quirks
from tests.provider.client import CALLS, WIRES, ask, post
from tests.samples import sample
from ziggurat import ConfigurationError
from ziggurat.fake_provider import FakeProvider, Quirk


def test_quirks_are_put_together() -> None:
    whole = ask(stream=True).body
    got = ask(kit.cut(60), kit.crlf(), kit.bom(), stream=True)
    assert got.body == b"\xef\xbb\xbf" + whole.replace(b"\n", b"\r\n")[:60]
    assert ask(kit.gzip_body(), kit.cut(30)).body == ask(kit.gzip_body()).body[:30]
    assert ask(kit.status(503), kit.content_type("text/html")).header("content-type") == "text/html"


def test_quirks_for_some_requests() -> None:
    some = [kit.status(500).on(2), kit.status(429).after(3), kit.status(418).when("teapot")]
    some.append(kit.status(402).when(lambda seen: seen.wire == "messages"))
    with FakeProvider(always="Hello", quirks=some) as server:
        assert post(server, text="teapot").status == 418
        assert [post(server).status for _ in range(3)] == [500, 200, 429]
        server.use(*some)
        assert post(server, "messages").status == 402


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cut=120", "cut(at_byte=120)"), ("cut=-5,clean=true", "cut(at_byte=-5, clean=True)"), ("crlf", "crlf()"),
        ("split=10+20", "split(at_bytes=(10, 20))"),
        ("status=429,retry_after=abc,first=3", "status(code=429, retry_after='abc').first(3)"),
        ("status=500,on=2+4", "status(code=500).on(2, 4)"), ("crlf,after=1", "crlf().after(1)"),
        ("bad_arguments=nan", "bad_arguments(form='nan')"), ("huge_arguments=0.5", "huge_arguments(megabytes=0.5)"),
        ("html,when=hi", "html().when('hi')"),
    ],
)  # fmt: skip
def test_quirks_on_a_command_line(text: str, name: str) -> None:
    assert repr(parsed(text)) == name


@pytest.mark.parametrize(
    "text", ["nothing", "cut", "cut=a,b=1", "crlf=1", "status=500,first=x", "bad_arguments=odd", ""]
)
def test_quirks_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parsed(text)


@pytest.mark.parametrize("make", [kit.bad_arguments, kit.rate_limited, kit.no_ids])
def test_forms_that_there_are_not_are_refused(make: Callable[[str], Quirk]) -> None:
    with pytest.raises(ConfigurationError, match="there is no form 'odd'"):
        make("odd")


NEEDED = {"cut": "5", "pace": "0", "status": "500", "redirect": "http://127.0.0.1:9/", "stall": "5,seconds=0"}
HEAVY = {"huge_arguments": "0.1", "big_text": "0.1", "gzip_bomb": "1", "many_calls": "20", "slow_headers": "0"}


def test_every_quirk_is_listed_said_and_answers() -> None:
    for entry in quirks():
        assert entry.name in kit.__all__
        assert entry.says.endswith(".")
        assert entry.good.endswith(".")
        given = (NEEDED | HEAVY).get(entry.name)
        quirk = parsed(entry.name + (f"={given}" if given else ""))
        for wire, stream in sample(product(WIRES, (False, True)), 3):
            ask(quirk, wire=wire, stream=stream)


def test_no_quirk_changes_the_replies_after_its_own() -> None:
    def replies(server: FakeProvider) -> list[bytes]:
        server.use()
        bodies = [post(server, wire, stream=stream).body for wire in WIRES for stream in (False, True)]
        return [re.sub(rb"\d+", b"0", body) for body in bodies]  # without ids and times

    with FakeProvider(model=CALLS) as server:
        before = replies(server)
        for entry in sample(quirks(), 25):
            given = (NEEDED | HEAVY).get(entry.name)
            for wire in WIRES:
                for stream in (False, True):
                    server.use(parsed(entry.name + (f"={given}" if given else "")))
                    post(server, wire, stream=stream)
            assert replies(server) == before, entry.name
