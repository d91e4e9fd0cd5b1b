"""Tests of the test guard: no connection beyond loopback, and no calls of real models."""

import socket

import pytest

from ziggurat import ConfigurationError
from ziggurat.models import require_real_calls_allowed


@pytest.mark.parametrize("host", ["192.0.2.1", "8.8.8.8"])
def test_sockets_stay_near(host: str) -> None:
    with socket.socket() as opened, pytest.raises(RuntimeError, match="beyond loopback"):
        opened.connect((host, 80))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened, pytest.raises(RuntimeError, match="loopback"):
        opened.sendto(b"x", (host, 53))


@pytest.mark.parametrize("host", ["192.0.2.1", "example.com", b"example.com"])
def test_names_are_not_looked_up(host: bytes | str) -> None:
    with pytest.raises(RuntimeError, match="loopback"):
        socket.getaddrinfo(host, 80)


def test_loopback_is_near() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    assert socket.getaddrinfo("localhost", 80)


def test_real_models_are_not_called() -> None:
    with pytest.raises(ConfigurationError, match="refused"):
        require_real_calls_allowed("openai:any")
