"""Which addresses are those of public servers."""

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from ziggurat.core.errors import ConfigurationError

AnyAddress = IPv4Address | IPv6Address
AnyNetwork = IPv4Network | IPv6Network

_SPECIAL = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",  # this host, which many systems take for loopback
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared between a provider and its customers; metadata of some clouds
        "127.0.0.0/8",
        "168.63.129.16/32",  # metadata of Azure, at an address that looks public
        "169.254.0.0/16",  # link-local, metadata of most clouds
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_6 = IPv6Network("2000::/3")
_SPECIAL_6 = tuple(IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "3fff::/20"))
_EMBEDDING = (  # addresses that lead to one of IPv4, by the bits behind that
    (IPv6Network("::ffff:0:0/96"), 0),
    (IPv6Network("64:ff9b::/96"), 0),
    (IPv6Network("2002::/16"), 80),
)


def is_public(address: AnyAddress) -> bool:
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL)
    for network, behind in _EMBEDDING:
        if address in network:
            return is_public(IPv4Address(int(address) >> behind & 0xFFFFFFFF))
    return address in _GLOBAL_6 and not any(address in network for network in _SPECIAL_6)


def network_of(text: str) -> AnyNetwork:
    """Return a network, such as ``10.1.0.0/16``; an address alone is a network of one."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise ConfigurationError(f"allow lists networks such as '10.1.0.0/16', got {text!r:.100}: {error}") from None
