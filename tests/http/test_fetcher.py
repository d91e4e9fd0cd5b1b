"""What others say to fetch is fetched from public servers only; each attack is tried on a server that would answer."""

import asyncio
import gzip
import socket
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from tests.models.http.support import Asked, serving
from ziggurat import Agent, ConfigurationError, Context, Denied, Timeout, stack, tool
from ziggurat.core import root
from ziggurat.errors import ServiceError
from ziggurat.http import Fetcher
from ziggurat.layers.retry import retry
from ziggurat.messages import tool_call
from ziggurat.providers import Limits
from ziggurat.testing import ScriptedModel

HERE = ("127.0.0.0/8", "::1/128")

LOOPBACK = [
    "127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "0.0.0.0", "0",
    "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[0:0:0:0:0:0:0:1]", "\u2460\u2461\u2466.\u24ea.\u24ea.\u2460",
    "\uff11\uff12\uff17.0.0.1", "127\u30020\u30020\u30021",
]  # fmt: skip
ELSEWHERE = ["169.254.169.254", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.100.100.200", "168.63.129.16"]
NO_ADDRESS = [
    "", "page", "//example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://127.0.0.1:70/_x", "http://",
    "http:///path", "http:example.com", "javascript:alert(1)", "data:text/plain,x", "http://exa mple.com/",
    "http://example.com/\r\nX-Header: 1", "http://example.com\\@127.0.0.1/", "http://user:word@example.com/",
    "http://example.com@127.0.0.1/", "http://[fe80::1%25eth0]/", "http://[::1", "http://a..b/", "http://exa\tmple.com/",
    "http://example.com:99999/", "http://example.com:22/", "http://example.com:0/", "http://example.com:-1/",
    "http://ex%61mple.com/", "http://127.0.0.1%2f@example.com/", "http://" + "a" * 64 + ".com/",
    "http://example.com/" + "a" * 9000, "HTTP://127.0.0.1:6379/", "http://example.com:80:80/",
]  # fmt: skip


class Names(asyncio.SelectorEventLoop):
    """A loop in which names have the addresses of a test, one set after another.

    Attributes:
        answers: For each name what it is resolved to; the last one stays.
        asked: The names that were resolved.
    """

    def __init__(self) -> None:
        super().__init__()
        self.answers: dict[str, list[list[str]]] = {}
        self.asked: list[str] = []

    async def getaddrinfo(self, host: Any, port: Any, **options: Any) -> Any:
        if host not in self.answers:
            return await super().getaddrinfo(host, port, **options)
        self.asked.append(host)
        answers = self.answers[host]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]


def with_names(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in such a loop, which is its first argument."""

    @wraps(test)
    def run() -> None:
        with asyncio.Runner(loop_factory=Names) as runner:
            runner.run(test(runner.get_loop()))

    del run.__wrapped__  # pytest shall not ask for the loop
    return run


async def hello(asked: Asked) -> None:
    await asked.reply(b"hello", content_type="text/plain")


async def test_what_is_at_an_address_is_fetched() -> None:
    async with serving(hello) as server:
        fetched = await Fetcher(allow=HERE, ports=None)(f"{server.url}/a b?q=é#part".replace(" ", "%20"), root())
    assert (fetched.status, fetched.text, fetched.body) == (200, "hello", b"hello")
    assert fetched.url == f"{server.url}/a%20b?q=%C3%A9"
    head = server.asked[0].head.lower()
    assert head.startswith("get /a%20b?q=%c3%a9 http/1.1\r\n")
    assert not any(name in head for name in ("cookie", "authorization", "referer"))


@pytest.mark.parametrize("host", LOOPBACK)
async def test_a_server_of_this_machine_is_not_reached_however_it_is_written(host: str) -> None:
    async with serving(hello) as server:
        with pytest.raises((Denied, ServiceError)) as caught:
            await Fetcher(ports=None)(f"http://{host}:{server.port}/", root())
        assert server.opened == 0
        assert isinstance(caught.value, Denied) or "cannot be reached" in str(caught.value)
        if host in (*LOOPBACK[:8], "localhost", "LOCALHOST", "localhost.", *LOOPBACK[-3:]):  # the attack would succeed
            await Fetcher(allow=HERE, ports=None)(f"http://{host}:{server.port}/", root())
            assert server.opened == 1


@pytest.mark.parametrize("host", ELSEWHERE)
async def test_private_networks_and_metadata_are_not_reached(host: str) -> None:
    with pytest.raises(Denied, match="not public"):
        await Fetcher()(f"http://{host}/latest/meta-data/", root())


@pytest.mark.parametrize("url", NO_ADDRESS)
async def test_what_is_no_public_address_is_refused_before_a_name_is_resolved(url: str) -> None:
    with pytest.raises(Denied):
        await Fetcher()(url, root())


@with_names
async def test_a_name_that_has_another_address_the_second_time_is_asked_at_the_first(loop: Names) -> None:
    loop.answers["rebinding.example"] = [["127.0.0.1"], ["127.0.0.2"]]
    async with serving(hello) as server:
        fetch = Fetcher(allow=["127.0.0.1"], ports=None)
        assert (await fetch(f"http://rebinding.example:{server.port}/", root())).text == "hello"
        assert loop.asked == ["rebinding.example"]
        assert server.asked[0].head.splitlines()[1] == f"host: rebinding.example:{server.port}"
        with pytest.raises(Denied, match=r"127\.0\.0\.2"):
            await fetch(f"http://rebinding.example:{server.port}/", root())


@with_names
async def test_a_name_with_one_address_that_is_not_public_is_refused(loop: Names) -> None:
    loop.answers["mixed.example"] = [["127.0.0.1", "127.0.0.2"]]
    async with serving(hello) as server:
        with pytest.raises(Denied, match=r"127\.0\.0\.2"):
            await Fetcher(allow=["127.0.0.1"], ports=None)(f"http://mixed.example:{server.port}/", root())
        assert server.opened == 0


@with_names
async def test_another_address_of_a_name_is_tried_if_one_does_not_answer(loop: Names) -> None:
    async with serving(hello) as server:
        loop.answers["two.example"] = [["127.0.0.9", "127.0.0.1"]]
        fetched = await Fetcher(allow=HERE, ports=None)(f"http://two.example:{server.port}/", root())
        assert fetched.text == "hello"


@pytest.mark.parametrize("target", ["http://169.254.169.254/", "http://10.0.0.1/", "file:///etc/passwd", "//127.1:22/"])
async def test_a_redirect_is_checked_as_any_address(target: str) -> None:
    async with serving(lambda asked: asked.reply(b"", "302 Found", location=target)) as server:
        stays = await Fetcher(allow=["127.0.0.1"], ports=None)(server.url, root())
        assert (stays.status, stays.headers["location"]) == (302, target)
        with pytest.raises(Denied):
            await Fetcher(allow=["127.0.0.1"], ports=(80, server.port), redirects=3)(server.url, root())


async def test_redirects_are_followed_as_often_as_is_allowed() -> None:
    async def answer(asked: Asked) -> None:
        number = int(asked.head.split(" ")[1].strip("/") or 0)
        if number < 3:
            await asked.reply(b"", "302 Found", location=f"/{number + 1}")
        else:
            await hello(asked)

    async with serving(answer) as server:
        fetched = await Fetcher(allow=HERE, ports=None, redirects=3)(server.url, root())
        assert (fetched.url, fetched.text) == (f"{server.url}/3", "hello")
        with pytest.raises(ServiceError, match="more often than 2 times"):
            await Fetcher(allow=HERE, ports=None, redirects=2)(server.url, root())


async def test_what_is_too_large_is_given_up_also_when_it_was_small() -> None:
    async def answer(asked: Asked) -> None:
        packed = "packed" in asked.head
        body = b"0" * 2_000_000
        await asked.reply(gzip.compress(body) if packed else body, **({"content_encoding": "gzip"} if packed else {}))

    async with serving(answer) as server:
        fetch = Fetcher(allow=HERE, ports=None, limits=Limits(reply=1_000_000))
        for path in ("/", "/packed"):
            with pytest.raises(ServiceError, match="larger than"):
                await fetch(server.url + path, root())


@pytest.mark.parametrize("limits", [Limits(total=0.05, idle=None), Limits(idle=0.05)])
async def test_a_server_that_says_nothing_is_given_up(limits: Limits) -> None:
    async with serving(Asked.hang) as server:
        with pytest.raises((Timeout, ServiceError)) as caught:
            await Fetcher(allow=HERE, ports=None, limits=limits)(server.url, root())
        assert caught.value.transient
        await server.closed.wait()


async def test_a_server_that_is_not_there_or_speaks_nonsense_is_a_failed_call() -> None:
    async def nonsense(asked: Asked) -> None:
        await asked.say(b"nonsense\r\n\r\n")

    async with serving(nonsense) as server:
        with pytest.raises(ServiceError, match="HTTP"):
            await Fetcher(allow=HERE, ports=None)(server.url, root())
    with pytest.raises(ServiceError, match="cannot be reached"):
        await Fetcher(allow=HERE, ports=None)(server.url, root())


async def test_a_fetcher_is_a_service_with_layers() -> None:
    async def second(asked: Asked) -> None:
        if asked.number == 1:
            raise ConnectionAbortedError
        await hello(asked)

    async with serving(second) as server:
        fetch = stack(Fetcher(allow=HERE, ports=None), retry(attempts=2, base=0))
        assert (await fetch(server.url, root())).text == "hello"


async def test_a_model_is_told_why_an_address_is_not_fetched() -> None:
    fetch = Fetcher()

    @tool
    async def read_page(url: str, ctx: Context) -> str:
        return (await fetch(url, ctx)).text

    model = ScriptedModel(tool_call("read_page", url="http://169.254.169.254/"), "I may not.")
    run = await Agent(model, tools=[read_page]).run("What is there?")
    assert "not public" in str(run.messages[-2])
    assert run.output == "I may not."


def test_a_network_that_is_none_is_refused_at_the_door() -> None:
    with pytest.raises(ConfigurationError, match="allow lists networks"):
        Fetcher(allow=["intranet"])


async def test_text_is_read_in_the_encoding_that_the_server_states() -> None:
    async def answer(asked: Asked) -> None:
        charset = asked.head.split(" ")[1].strip("/")
        await asked.reply("é".encode("latin-1"), content_type=f"text/plain; charset={charset}")

    async with serving(answer) as server:
        fetch = Fetcher(allow=HERE, ports=None)
        texts = [(await fetch(f"{server.url}/{charset}", root())).text for charset in ("latin-1", "utf-8", "none-such")]
    assert texts == ["é", "\ufffd", "\ufffd"]


async def test_what_is_sent_to_an_address_of_others_obeys_the_same_rules() -> None:
    async with serving(hello) as server:
        post = Fetcher(allow=HERE, ports=None).post
        reply = await post(f"{server.url}/hook", b"{}", {"content-type": "application/json", "x-key": "k"}, root())
        assert (reply.status, reply.body) == (200, b"hello")
        assert (server.asked[0].body, "x-key: k\r\n" in server.asked[0].head) == (b"{}", True)
        with pytest.raises(Denied):
            await Fetcher(ports=None).post(f"{server.url}/hook", b"{}", {}, root())
        for headers in ({"x-key": "a\r\nx: b"}, {"x\n": "b"}, {"": "b"}, {"x": "é"}):
            with pytest.raises(Denied):
                await post(f"{server.url}/hook", b"{}", headers, root())
        assert len(server.asked) == 1


@pytest.mark.parametrize("host", [*LOOPBACK, *ELSEWHERE])
def test_an_address_that_shows_where_it_leads_is_refused_before_it_is_used(host: str) -> None:
    if "localhost" in host.lower():
        return
    with pytest.raises(Denied):
        Fetcher().check(f"http://{host}/")
    Fetcher().check("https://example.com/")
