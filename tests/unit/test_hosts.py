"""Which hosts may be talked to: entries, and what they allow by the address that is connected to."""

from __future__ import annotations

import ipaddress

import pytest

from mutirao.hosts import HostRules, is_address, is_name, is_public, parse_rule


def _allows(entries: list[str], host: str, address: str, port: int = 443) -> bool:
    return HostRules(entries).allows(host, ipaddress.ip_address(address), port)


@pytest.mark.parametrize(
    ("entry", "host", "address", "allowed"),
    [
        ("example.org", "example.org", "93.184.215.14", True),
        ("EXAMPLE.org", "example.org", "2606:2800:21f::1", True),
        ("example.org", "www.example.org", "93.184.215.14", False),
        ("example.org", "badexample.org", "93.184.215.14", False),
        ("*.example.org", "a.b.example.org", "93.184.215.14", True),
        ("*.example.org", "example.org", "93.184.215.14", False),
        ("*.example.org", "badexample.org", "93.184.215.14", False),
        ("10.0.0.0/8", "anything", "10.1.2.3", True),
        ("10.0.0.0/8", "anything", "11.1.2.3", False),
        ("10.0.0.7", "10.0.0.7", "10.0.0.7", True),
        ("[fd00::/8]:443", "anything", "fd12::1", True),
        ("::1", "localhost", "::1", True),
        ("[::1]:8080", "localhost", "::1", False),
        ("example.org:443", "example.org", "93.184.215.14", True),
        ("example.org:8443", "example.org", "93.184.215.14", False),
    ],
)
def test_an_entry_allows_what_it_says(entry: str, host: str, address: str, allowed: bool) -> None:
    assert _allows([entry], host, address) is allowed


INWARD = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.1.1", "172.16.0.1", "192.168.1.1", "169.254.169.254",
    "100.64.0.1", "192.0.2.1", "198.18.0.1", "224.0.0.1", "255.255.255.255", "240.0.0.1",
    "::", "::1", "::7f00:1", "fe80::1", "fec0::1", "fd00::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a00:1::",
]  # fmt: skip


@pytest.mark.parametrize("address", INWARD)
def test_a_name_alone_allows_no_address_of_this_machine_or_its_network(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    assert not _allows(["example.org"], "example.org", address)
    assert _allows(["example.org", "0.0.0.0/0", "::/0"], "example.org", address)


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.215.14", "2606:4700::1", "64:ff9b::808:808"])
def test_public_addresses_are(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize(
    "entry",
    [
        "", "*", "*.", "http://example.org", "user@example.org", "ex ample", "a:b", "example.org:0",
        "example.org:99999", "10.0.0.1/8", "10.0.0.0/33", "127.1", "2130706433", "0x7f.1", "0177.0.0.1",
        "fe80::1%eth0", "::ffff:10.0.0.1", "-a.org", "a..b", "bücher.de", "[::1", "x" * 254,
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"is no|port out of range|write it as IPv4"):
        parse_rule(entry)


@pytest.mark.parametrize("host", ["127.1", "2130706433", "0x7f000001", "0177.1", "1.2.3.4.5", "a.0x1", "a.1"])
def test_what_a_resolver_takes_for_a_number_is_no_name(host: str) -> None:
    assert not is_name(host)
    assert not is_address(host)


def test_a_name_is_looked_up_only_if_that_could_help() -> None:
    assert HostRules(["10.0.0.0/8"]).may_name("anything", 80)
    assert HostRules(["example.org"]).may_name("example.org", 80)
    assert not HostRules(["example.org"]).may_name("other.org", 80)
    assert not HostRules(["example.org:443"]).may_name("example.org", 80)
    assert not HostRules(["10.0.0.0/8:443"]).may_name("anything", 80)
