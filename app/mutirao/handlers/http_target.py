"""Where a request may go: a URL becomes addresses that are allowed, and only those are connected to."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass

import httpx

from mutirao.contract import Discard, PayloadRefused, Retry
from mutirao.hosts import Address, HostRules, is_address, is_name, plain

_PORTS = {"http": 80, "https": 443}
_NOT_ALLOWED = "is not allowed (setting `http_hosts`)"


@dataclass(frozen=True, slots=True)
class Target:
    """A URL and the addresses to reach it at; nobody looks its name up again."""

    url: httpx.URL
    host: str
    addresses: list[Address]

    def at(self, address: Address) -> httpx.URL:
        """The URL to connect with."""
        return self.url.copy_with(host=str(address))

    @property
    def server_name(self) -> str:
        """Whom the server's certificate must name."""
        return self.host.removesuffix(".")

    @property
    def origin(self) -> tuple[str, str, int]:
        """Scheme, host and port: whoever shares them may see the same headers."""
        return (self.url.scheme, self.server_name, _port(self.url))


def parse(text: str) -> httpx.URL:
    """The text as a URL; PayloadRefused when it is none."""
    try:
        return httpx.URL(text)
    except (httpx.InvalidURL, ValueError) as error:
        raise PayloadRefused("url", str(error)) from None


def target_of(url: httpx.URL, rules: HostRules) -> Target:
    """The URL with those of its addresses that are allowed; Discard when there is none.

    Retry when its name cannot be looked up now.
    """
    if url.scheme not in _PORTS:
        raise Discard(f"{url.scheme!r} is not a scheme for this handler: http or https")
    if url.userinfo:
        raise Discard("a URL with a user name in it is refused: send the header Authorization")
    host, port = url.raw_host.decode("ascii").lower(), _port(url)
    found = _addresses(host, port, rules)
    allowed = [address for address in found if rules.allows(host.removesuffix("."), address, port)]
    if not allowed:
        where = ", ".join(map(str, found))
        raise Discard(f"{host} port {port} (at {where}) {_NOT_ALLOWED}")
    return Target(url, host, allowed)


def _port(url: httpx.URL) -> int:
    port = _PORTS[url.scheme] if url.port is None else url.port
    if not 1 <= port <= 65535:
        raise Discard(f"there is no port {port}")
    return port


def _addresses(host: str, port: int, rules: HostRules) -> list[Address]:
    if is_address(host):
        address = ipaddress.ip_address(host)
        if plain(address) != address:
            raise Discard(f"{host} is an IPv4 address in disguise: write it as one")
        return [address]
    name = host.removesuffix(".")
    if not is_name(name):
        raise Discard(f"{host!r} is neither a host name nor an address in its usual writing")
    if not rules.may_name(name, port):
        raise Discard(f"{host} port {port} {_NOT_ALLOWED}")
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Retry(f"{host} cannot be looked up: {error}", details={"error": type(error).__name__}) from None
    # A zone (fe80::1%eth0) says by which way, not to whom.
    texts = dict.fromkeys(str(place[4][0]).partition("%")[0] for place in found)
    return [plain(ipaddress.ip_address(text)) for text in texts]
