"""Which addresses are public."""

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given, strategies as st

from ziggurat import ConfigurationError
from ziggurat.http.fetcher import Fetcher, is_public

PUBLIC = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2001:4860:4860::8888"]
SPECIAL = [
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "168.63.129.16",
    "169.254.169.254", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255", "::", "::1",
    "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "ff02::1", "2001::1", "2001:db8::1", "3fff::1", "100::1",
    "5f00::1", "64:ff9b:1::1", "::7f00:1",
]  # fmt: skip


@pytest.mark.parametrize("text", PUBLIC)
def test_addresses_of_public_servers_are_public(text: str) -> None:
    assert is_public(IPv6Address(text) if ":" in text else IPv4Address(text))


@pytest.mark.parametrize("text", SPECIAL)
def test_special_addresses_are_not_public(text: str) -> None:
    assert not is_public(IPv6Address(text) if ":" in text else IPv4Address(text))


@given(st.ip_addresses(v=4))
def test_an_address_that_leads_to_another_is_public_if_that_one_is(address: IPv4Address) -> None:
    number = int(address)
    forms = [0xFFFF << 32 | number, 0x64FF9B << 96 | number, 0x2002 << 112 | number << 80 | 1]
    assert {is_public(IPv6Address(form)) for form in forms} == {is_public(address)}


@given(st.ip_addresses())
def test_what_is_public_is_public_by_the_standard_library_too(address: IPv4Address | IPv6Address) -> None:
    embeds = isinstance(address, IPv6Address) and (address.sixtofour or address.ipv4_mapped or address.teredo)
    if is_public(address) and not embeds and int(address) >> 32 != 0x64FF9B << 64:
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("text", ["", "10.0.0.1/8", "localhost", "10.0.0.0/33"])
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="allow lists networks"):
        Fetcher(allow=[text])
