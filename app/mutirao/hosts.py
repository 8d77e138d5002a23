"""Which hosts may be talked to: names and networks, judged by the address that is really connected to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
# What resolvers take for an address though it is none in writing: 2130706433, 0x7f.1, 127.1
_NUMBER_AT_THE_END = re.compile(r"(?:.*\.)?(?:[0-9]+|0x[0-9a-f]*)")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class HostRule:
    """One entry: a name, `*.` and a name, or a network (an address is one of its own); maybe with a port."""

    name: str = ""
    network: Network | None = None
    port: int | None = None

    def names(self, host: str, port: int) -> bool:
        """Whether the entry allows that name."""
        if not self.name or self.port not in {None, port}:
            return False
        return host.endswith(self.name[1:]) if self.name.startswith("*.") else host == self.name

    def covers(self, address: Address, port: int) -> bool:
        """Whether the entry allows that address."""
        return self.network is not None and self.may_cover(port) and address in self.network

    def may_cover(self, port: int) -> bool:
        """Whether the entry allows any address at that port."""
        return self.network is not None and self.port in {None, port}


class HostRules:
    """The entries of a setting; ValueError names the first that is none."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._rules = [parse_rule(entry) for entry in entries]

    def may_name(self, host: str, port: int) -> bool:
        """Whether looking the name up could lead to an address that is allowed."""
        return any(rule.names(host, port) or rule.may_cover(port) for rule in self._rules)

    def allows(self, host: str, address: Address, port: int) -> bool:
        """Whether `host` may be talked to at this address.

        An entry that covers the address allows it. A name alone allows public addresses only, so that
        nobody who answers for the name can point it at this machine or its network.
        """
        if any(rule.covers(address, port) for rule in self._rules):
            return True
        return is_public(address) and any(rule.names(host, port) for rule in self._rules)


def parse_rule(entry: str) -> HostRule:
    """The entry as a rule; ValueError says what it should look like."""
    host, port = _split(entry.lower())
    if "/" in host or is_address(host):
        return HostRule(network=_network(host, entry), port=port)
    bare = host.removeprefix("*.")
    if not is_name(bare):
        raise ValueError(
            f"{entry!r} is no host: write a name, `*.` and a name, an address or a network like 10.0.0.0/8, "
            "with `:port` after it if need be ([::1]:8080)"
        )
    return HostRule(name=host, port=port)


def _network(host: str, entry: str) -> Network:
    try:
        network = ipaddress.ip_network(host)
    except ValueError as error:
        raise ValueError(f"{entry!r} is no network: {error}") from None
    if network.version == 6 and network.network_address.ipv4_mapped:  # addresses are compared as IPv4 ones
        raise ValueError(f"{entry!r} is an IPv4 address written as IPv6: write it as IPv4")
    return network


def _split(entry: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::([0-9]{1,5}))?", entry)
    plain = re.fullmatch(r"([^:]*):([0-9]{1,5})", entry)
    match = bracketed or plain
    if match is None:
        return entry, None
    port = int(match[2]) if match[2] else None
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"{entry!r} has a port out of range")
    return match[1], port


def is_address(host: str) -> bool:
    """Whether the text is an address in its usual writing; an IPv6 one without brackets or zone."""
    try:
        return "%" not in host and bool(ipaddress.ip_address(host))
    except ValueError:
        return False


def is_name(host: str) -> bool:
    """Whether the text is a host name (ASCII, lower case) that no resolver takes for a number."""
    return len(host) <= 253 and bool(_NAME.fullmatch(host)) and not _NUMBER_AT_THE_END.fullmatch(host)


def plain(address: Address) -> Address:
    """The address that is really meant: the IPv4 one for an IPv4-mapped one."""
    return getattr(address, "ipv4_mapped", None) or address


def is_public(address: Address) -> bool:
    """Whether the address, and any IPv4 address it carries, is of the internet at large."""
    carried = _carried(address)
    if address in _NAT64:
        return is_public(*carried)
    own = address.is_global and not (address.is_multicast or address.is_reserved)
    return own and not getattr(address, "is_site_local", False) and all(map(is_public, carried))


def _carried(address: Address) -> list[ipaddress.IPv4Address]:
    if isinstance(address, ipaddress.IPv4Address):
        return []
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    return [inner for inner in found if inner is not None]
