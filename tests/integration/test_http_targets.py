"""Where the `http` handler goes: only to addresses that are allowed, whatever names and redirects say."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

from mutirao.contract import Discard, PayloadRefused, Retry
from mutirao.handlers import http_wire
from tests.support.asking import JOB, ask
from tests.support.http_server import CERTIFICATE, Site, site
from tests.support.names import Names


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


# -- where it may go


@pytest.mark.parametrize(
    "url",
    [
        "http://192.0.2.1/", "http://169.254.169.254/latest", "http://[::1]/", "http://[::ffff:127.0.0.1]/",
        "http://[fe80::1%25lo]/", "http://2130706433/", "http://0x7f.1/", "http://127.1/",
        "http://user@127.0.0.1/", "http://user:word@127.0.0.1/", "http://127.0.0.1:0/", "http://127.0.0.1:70000/",
        "http:///path", "http://%31%32%37.0.0.1/",
    ],
)  # fmt: skip
def test_elsewhere_and_disguises_are_refused(url: str) -> None:
    with pytest.raises(Discard):
        ask(url)


@pytest.mark.parametrize(
    ("payload", "field"),
    [
        ({"url": "ftp://127.0.0.1/"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "http://[::1"}, "url"),
        ({"url": "http://0177.0.0.1/"}, "url"),
        ({"url": "http://h/\x01"}, "url"),
        ({"headers": {"X": "a\r\nY: b"}}, "headers"),
        ({"headers": {"X\n": "a"}}, "headers"),
        ({"headers": {"hOsT": "other"}}, "headers"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "headers"),
        ({"expect": []}, "expect"),
        ({"expect": [99]}, "expect.0"),
        ({"method": "CONNECT"}, "method"),
        ({"proxy": "x"}, "proxy"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused(payload: dict[str, Any], field: str) -> None:
    with pytest.raises(PayloadRefused) as refused:
        ask(**({"url": "http://127.0.0.1/"} | payload))
    assert refused.value.field == field


def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to(here: Site, names: Names) -> None:
    names.point("public.test", ["127.0.0.1"], ["192.0.2.1"])
    found = ask(here.url(host="public.test"), ["public.test", "127.0.0.1"])
    assert found["url"] == here.url(host="public.test")
    assert names.asked == ["public.test"]
    assert here.asked[0].headers["host"] == f"public.test:{here.port}"


def test_an_allowed_name_pointed_inwards_is_refused(here: Site, names: Names) -> None:
    for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"):
        names.point("public.test", [address])
        with pytest.raises(Discard, match="not allowed"):
            ask(here.url(host="public.test"), ["public.test"])
    assert here.asked == []


def test_of_several_addresses_the_allowed_are_tried_in_turn(here: Site, names: Names) -> None:
    names.point("several.test", ["192.0.2.1", "127.0.0.3", "127.0.0.1"])
    assert ask(here.url(host="several.test"))["status"] == 200


def test_a_name_that_no_entry_could_allow_is_not_even_looked_up(names: Names) -> None:
    with pytest.raises(Discard, match="not allowed"):
        ask("http://other.test/", ["public.test"])
    assert names.asked == []


def test_a_name_that_is_not_known_now_is_tried_again(names: Names) -> None:
    with pytest.raises(Retry, match="cannot be looked up"):
        ask("http://public.test/", ["public.test"])


# -- redirects


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/",
        "http://[::1]:{port}/",
        "//192.0.2.1/",
        "ftp://127.0.0.1/",
        "http://user@127.0.0.1/",
    ],
)
def test_a_redirect_to_where_it_may_not_go_is_refused(here: Site, location: str) -> None:
    here.answers["/"] = (302, {"Location": location.format(port=here.port)}, b"")
    with pytest.raises(Discard):
        ask(here.url())
    assert len(here.asked) == 1


def test_a_redirect_to_a_name_pointed_inwards_is_refused(here: Site, names: Names) -> None:
    names.point("public.test", ["127.0.0.2"])
    here.answers["/"] = (302, {"Location": here.url(host="public.test")}, b"")
    with pytest.raises(Discard, match="not allowed"):
        ask(here.url(), ["127.0.0.1", "public.test"])
    assert len(here.asked) == 1


SECRETS = {"Authorization": "Bearer x", "Cookie": "c", "X-Api-Key": "k", "Accept": "text/html"}


def test_another_origin_is_told_no_secrets_and_the_same_one_is(here: Site) -> None:
    with site() as other:
        other.answers["/"] = (200, {}, b"")
        here.answers["/same"] = (307, {"Location": "/"}, b"")
        here.answers["/other"] = (307, {"Location": other.url()}, b"")
        ask(here.url("/same"), method="POST", body={"a": 1}, headers=SECRETS)
        ask(here.url("/other"), method="POST", body={"a": 1}, headers=SECRETS)
    kept, told = here.asked[1], other.asked[0]
    assert {name: kept.headers.get(name.lower()) for name in SECRETS} == SECRETS
    assert (kept.method, kept.body) == ("POST", b'{"a":1}')
    assert not {"authorization", "cookie", "x-api-key"} & set(told.headers)
    assert (told.headers["accept"], told.headers["idempotency-key"]) == ("text/html", str(JOB))


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [
        (301, "POST", "GET"), (302, "POST", "GET"), (303, "PUT", "GET"), (303, "HEAD", "HEAD"),
        (301, "PUT", "PUT"), (307, "POST", "POST"), (308, "DELETE", "DELETE"),
    ],
)  # fmt: skip
def test_what_becomes_of_the_method(here: Site, status: int, method: str, then: str) -> None:
    here.answers["/from"] = (status, {"Location": "/"}, b"")
    ask(here.url("/from"), method=method, body="text")
    asked = here.asked[1]
    assert asked.method == then
    assert (asked.body == b"text") is (then != "GET")
    assert ("content-type" in asked.headers) is (then != "GET")


def test_five_redirects_are_followed_and_no_more(here: Site) -> None:
    for number in range(1, 7):
        here.answers[f"/{number}"] = (302, {"Location": f"/{number - 1}" if number > 1 else "/"}, b"")
    assert ask(here.url("/5"))["url"] == here.url()
    with pytest.raises(Discard, match="more than 5 redirects"):
        ask(here.url("/6"))


def test_redirects_may_be_left_alone_or_expected(here: Site) -> None:
    here.answers["/from"] = (302, {"Location": "/"}, b"")
    with pytest.raises(Discard, match="status 302"):
        ask(here.url("/from"), follow_redirects=False)
    assert ask(here.url("/from"), expect=[302])["headers"]["location"] == "/"


# -- certificates


def test_a_certificate_must_name_the_host_though_its_address_is_connected_to(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = ssl.create_default_context(cafile=CERTIFICATE)
    monkeypatch.setattr(http_wire, "_certificates", lambda: context)
    names.point("secure.test", ["127.0.0.1"])
    names.point("other.test", ["127.0.0.1"])
    with site(secure=True) as made:
        made.answers["/"] = (200, {}, b"secret")
        assert ask(made.url(host="secure.test", scheme="https"))["body"] == "secret"
        for host in ("other.test", "127.0.0.1"):
            with pytest.raises(Retry, match="ConnectError"):
                ask(made.url(host=host, scheme="https"))
        assert len(made.asked) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(names: Names) -> None:
    names.point("secure.test", ["127.0.0.1"])
    with site(secure=True) as made, pytest.raises(Retry, match="certificate verify failed"):
        ask(made.url(host="secure.test", scheme="https"))
