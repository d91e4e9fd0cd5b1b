"""What holds for every test: no real models, nothing beyond loopback, the same examples in every run."""

import gc
import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import islice, zip_longest
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.samples import LONG, SEED, amount
from ziggurat.testing import forbid_real_calls

forbid_real_calls()
os.environ.pop("PYTHONASYNCIODEBUG", None)
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # so does a shell for what it starts in the background
    signal.signal(signal.SIGINT, signal.default_int_handler)
os.environ["ZIGGURAT_STORE"] = "memory:"  # no test writes to the data directory of who runs it

# Stores fsync, which takes most of the time of many tests on a disk and none in memory.
_MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > 2 << 30:
    os.environ["TMPDIR"] = str(_MEMORY)

# The programs that tests start would each compile all that they import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

for _name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[_name]  # what is near is not reached through a proxy

# No test talks with the servers of others, and a client of httpx takes 0.05 s to read whose certificates to trust.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# The same examples in every run, however slow the machine is; --hypothesis-seed=NUMBER draws others.
settings.register_profile(
    "ziggurat",
    max_examples=amount(30, 100),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ziggurat")


def _is_near(host: object) -> bool:
    if isinstance(host, bytes):
        host = host.decode("ascii", "replace")
    if host in (None, "", "localhost"):
        return True
    try:
        return ip_address(str(host).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _stay_near(event: str, arguments: tuple[object, ...]) -> None:
    """Refuse sockets that would reach beyond this machine; an audit hook, so no library gets around it."""
    if not event.startswith("socket."):
        return
    if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
        address = arguments[1]
        if isinstance(address, tuple) and not _is_near(address[0]):
            raise RuntimeError(f"tests do not reach beyond loopback: {event} to {address}")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not _is_near(arguments[0]):
        raise RuntimeError(f"tests do not reach beyond loopback: {event} of {arguments[0]!r}")


sys.addaudithook(_stay_near)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", type=int, metavar="N", help="run N tests only, as many of each file as of any other")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    count = config.getoption("--smoke")
    if not count:
        return
    files: dict[Path, list[pytest.Item]] = {}
    for item in random.Random(SEED).sample(items, len(items)):
        files.setdefault(item.path, []).append(item)
    rounds = (item for round_ in zip_longest(*files.values()) for item in round_ if item is not None)
    chosen = set(islice(rounds, count))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


def pytest_report_header() -> str:
    return f"samples by ZIGGURAT_SEED={SEED}" + (", everything is tried" if LONG else "")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Leave the tests themselves out of garbage collections, of which many tests make one: they take half a second."""
    gc.collect()
    gc.freeze()


class _Reports(logging.Handler):
    """Errors that no code receives: of callbacks, and of tasks whose result nobody reads."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(self.format(record))


_reports = _Reports()
logging.getLogger("asyncio").addHandler(_reports)


@pytest.fixture(autouse=True)
def _event_loops_report_nothing() -> Iterator[None]:
    yield
    texts, _reports.texts = _reports.texts, []
    assert not texts, "\n".join(texts)
