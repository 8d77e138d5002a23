"""The `http` handler against real servers: what it sends and takes, where it goes, what it tries again."""

from __future__ import annotations

import itertools
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from mutirao.binding import contract_of
from mutirao.contract import Discard, PayloadRefused, Retry
from mutirao.explaining import Schema
from mutirao.handlers import http_wire
from mutirao.handlers.http import Http
from mutirao.registry import HandlerConfig
from mutirao.testing import attempt
from tests.support.http_server import CERTIFICATE, Site, site
from tests.support.running import end_of, error_of, runners, task

JOB = UUID(int=5)
LOOPBACK = ["127.0.0.0/8"]


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture
def here(running: Site) -> Site:
    running.asked.clear()
    running.answers.clear()
    running.answers["/"] = (200, {"Content-Type": "text/plain"}, b"hello")
    return running


class Names:
    """A resolver that gives each name its next list of addresses, and counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lists: dict[str, Iterator[list[str]]] = {}
        self.asked: list[str] = []
        self._real = socket.getaddrinfo
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def point(self, name: str, *lists: list[str]) -> None:
        self.lists[name] = itertools.chain(lists[:-1], itertools.repeat(lists[-1]))

    def _look_up(self, host: Any, port: Any, *rest: Any, **named: Any) -> Any:
        text = host.decode() if isinstance(host, bytes) else host
        if text.replace(".", "").replace(":", "").isalnum() and not text[-1].isalpha():
            return self._real(host, port, *rest, **named)
        self.asked.append(text)
        if text not in self.lists:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            found for address in next(self.lists[text]) for found in self._real(address, port, *rest, **named)
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


def _ask(url: str, hosts: list[str] | None = None, **payload: Any) -> dict[str, Any]:
    found: dict[str, Any] = attempt(Http(hosts or LOOPBACK), {"url": url, **payload}, job_id=JOB)
    return found


# -- what is sent and taken


def test_an_answer_is_the_result(here: Site) -> None:
    here.answers["/page?q=1"] = (200, {"ETag": '"x"', "Set-Cookie": "secret", "X-Other": "1"}, "é\0".encode())
    found = _ask(here.url("/page?q=1"))
    assert found["status"] == 200
    assert found["body"] == "é\ufffd"
    assert found["url"] == here.url("/page?q=1")
    assert found["headers"]["etag"] == '"x"'
    assert not {"set-cookie", "x-other"} & set(found["headers"])


def test_the_jobs_id_is_the_idempotency_key_unless_another_is_given(here: Site) -> None:
    _ask(here.url(), method="POST")
    _ask(here.url(), method="POST", headers={"idempotency-KEY": "mine"})
    assert [asked.headers["idempotency-key"] for asked in here.asked] == [str(JOB), "mine"]


@pytest.mark.parametrize(
    ("body", "sent", "kind"),
    [
        ({"n": 9007199254740993, "é": [None, 0]}, '{"n":9007199254740993,"é":[null,0]}', "application/json"),
        ("a text", "a text", "text/plain; charset=utf-8"),
        (0, "0", "application/json"),
        (False, "false", "application/json"),
        (None, "", None),
    ],
)
def test_bodies(here: Site, body: Any, sent: str, kind: str | None) -> None:
    _ask(here.url(), method="PUT", body=body)
    assert here.asked[0].body == sent.encode()
    assert here.asked[0].headers.get("content-type") == kind


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_methods(here: Site, method: str) -> None:
    assert _ask(here.url(), method=method)["body"] == ("" if method == "HEAD" else "hello")
    assert here.asked[0].method == method


def test_of_a_large_body_the_beginning_is_kept_and_the_rest_counted(here: Site) -> None:
    here.answers["/"] = (200, {}, b"x" * 3_000_000)
    found = _ask(here.url())
    assert (len(found["body"]), found["body_dropped"]) == (65536, 3_000_000 - 65536)


def test_an_endless_body_is_read_for_a_mebibyte(here: Site) -> None:
    here.answers["/"] = (200, {"Connection": "close"}, lambda: itertools.repeat(b"x" * 65536))
    found = _ask(here.url())
    assert len(found["body"]) == 65536
    assert found["body_dropped"] >= (1 << 20) - 65536


@pytest.mark.parametrize(
    ("charset", "body", "text"),
    [
        ("latin-1", b"\xe9", "é"),
        ("utf-16", "é".encode("utf-16"), "é"),
        ("zlib", b"a", "a"),
        ("x", b"\xff", "\ufffd"),
    ],
)
def test_charsets(here: Site, charset: str, body: bytes, text: str) -> None:
    here.answers["/"] = (200, {"Content-Type": f"text/plain; charset={charset}"}, body)
    assert _ask(here.url())["body"] == text


def test_the_environments_proxies_are_not_used(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert _ask(here.url())["status"] == 200


def test_it_runs_in_a_runner(here: Site, tmp_path: Path) -> None:
    with runners(tmp_path, count=1, config=HandlerConfig(http_hosts=("127.0.0.1",))) as made:
        assert b'"status":200' in (end_of(made, task("http", {"url": here.url()})).result or b"")
        refused = end_of(made, task("http", {"url": here.url(host="127.0.0.2")}))
        failed = end_of(made, task("http", {"url": here.url("/gone")}))
    assert (refused.discard, error_of(refused)["type"]) == (True, "Discard")
    assert error_of(failed)["status"] == 404
    assert "traceback" not in error_of(failed)


# -- how it ends


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_what_may_pass_is_tried_again(here: Site, status: int) -> None:
    here.answers["/"] = (status, {"Retry-After": "7"}, b"busy")
    with pytest.raises(Retry, match=f"status {status}") as retry:
        _ask(here.url())
    assert retry.value.after == 7
    assert retry.value.details == {"status": status, "body": "busy"}


@pytest.mark.parametrize(
    ("headers", "after"),
    [
        ({}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "9" * 500}, 3600),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
    ],
)
def test_retry_after(here: Site, headers: dict[str, str], after: float | None) -> None:
    here.answers["/"] = (503, headers, b"")
    with pytest.raises(Retry) as retry:
        _ask(here.url())
    assert retry.value.after == after


@pytest.mark.parametrize("status", [304, 400, 401, 404, 422])
def test_what_will_not_pass_costs_all_retries(here: Site, status: int) -> None:
    here.answers["/"] = (status, {}, b"")
    with pytest.raises(Discard, match=f"status {status}"):
        _ask(here.url())


def test_expected_statuses_are_the_callers(here: Site) -> None:
    assert _ask(here.url("/gone"), expect=[404])["status"] == 404
    here.answers["/"] = (503, {}, b"")
    assert _ask(here.url(), expect=[200, 503])["status"] == 503
    here.answers["/"] = (200, {}, b"")
    with pytest.raises(Discard, match="status 200"):
        _ask(here.url(), expect=[204])


def test_what_goes_wrong_on_the_way_is_tried_again(here: Site) -> None:
    here.answers["/"] = None
    with pytest.raises(Retry, match="RemoteProtocolError") as retry:
        _ask(here.url())
    assert retry.value.details == {"error": "RemoteProtocolError"}
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(Retry, match="ConnectError"):
            _ask(f"http://127.0.0.1:{closed.getsockname()[1]}/")


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
        _ask(url)


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
        _ask(**({"url": "http://127.0.0.1/"} | payload))
    assert refused.value.field == field


def test_a_name_is_looked_up_once_and_what_was_checked_is_connected_to(here: Site, names: Names) -> None:
    names.point("public.test", ["127.0.0.1"], ["192.0.2.1"])
    found = _ask(here.url(host="public.test"), ["public.test", "127.0.0.1"])
    assert found["url"] == here.url(host="public.test")
    assert names.asked == ["public.test"]
    assert here.asked[0].headers["host"] == f"public.test:{here.port}"


def test_an_allowed_name_pointed_inwards_is_refused(here: Site, names: Names) -> None:
    for address in ("127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1"):
        names.point("public.test", [address])
        with pytest.raises(Discard, match="not allowed"):
            _ask(here.url(host="public.test"), ["public.test"])
    assert here.asked == []


def test_of_several_addresses_the_allowed_are_tried_in_turn(here: Site, names: Names) -> None:
    names.point("several.test", ["192.0.2.1", "127.0.0.3", "127.0.0.1"])
    assert _ask(here.url(host="several.test"))["status"] == 200


def test_a_name_that_no_entry_could_allow_is_not_even_looked_up(names: Names) -> None:
    with pytest.raises(Discard, match="not allowed"):
        _ask("http://other.test/", ["public.test"])
    assert names.asked == []


def test_a_name_that_is_not_known_now_is_tried_again(names: Names) -> None:
    with pytest.raises(Retry, match="cannot be looked up"):
        _ask("http://public.test/", ["public.test"])


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
        _ask(here.url())
    assert len(here.asked) == 1


def test_a_redirect_to_a_name_pointed_inwards_is_refused(here: Site, names: Names) -> None:
    names.point("public.test", ["127.0.0.2"])
    here.answers["/"] = (302, {"Location": here.url(host="public.test")}, b"")
    with pytest.raises(Discard, match="not allowed"):
        _ask(here.url(), ["127.0.0.1", "public.test"])
    assert len(here.asked) == 1


SECRETS = {"Authorization": "Bearer x", "Cookie": "c", "X-Api-Key": "k", "Accept": "text/html"}


def test_another_origin_is_told_no_secrets_and_the_same_one_is(here: Site) -> None:
    with site() as other:
        other.answers["/"] = (200, {}, b"")
        here.answers["/same"] = (307, {"Location": "/"}, b"")
        here.answers["/other"] = (307, {"Location": other.url()}, b"")
        _ask(here.url("/same"), method="POST", body={"a": 1}, headers=SECRETS)
        _ask(here.url("/other"), method="POST", body={"a": 1}, headers=SECRETS)
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
    _ask(here.url("/from"), method=method, body="text")
    asked = here.asked[1]
    assert asked.method == then
    assert (asked.body == b"text") is (then != "GET")
    assert ("content-type" in asked.headers) is (then != "GET")


def test_five_redirects_are_followed_and_no_more(here: Site) -> None:
    for number in range(1, 7):
        here.answers[f"/{number}"] = (302, {"Location": f"/{number - 1}" if number > 1 else "/"}, b"")
    assert _ask(here.url("/5"))["url"] == here.url()
    with pytest.raises(Discard, match="more than 5 redirects"):
        _ask(here.url("/6"))


def test_redirects_may_be_left_alone_or_expected(here: Site) -> None:
    here.answers["/from"] = (302, {"Location": "/"}, b"")
    with pytest.raises(Discard, match="status 302"):
        _ask(here.url("/from"), follow_redirects=False)
    assert _ask(here.url("/from"), expect=[302])["headers"]["location"] == "/"


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
        assert _ask(made.url(host="secure.test", scheme="https"))["body"] == "secret"
        for host in ("other.test", "127.0.0.1"):
            with pytest.raises(Retry, match="ConnectError"):
                _ask(made.url(host=host, scheme="https"))
        assert len(made.asked) == 1


def test_a_certificate_that_nobody_vouches_for_is_refused(names: Names) -> None:
    names.point("secure.test", ["127.0.0.1"])
    with site(secure=True) as made, pytest.raises(Retry, match="certificate verify failed"):
        _ask(made.url(host="secure.test", scheme="https"))


def test_the_door_refuses_what_it_can(here: Site) -> None:
    door = Schema(contract_of(Http(LOOPBACK)).payload_schema)
    assert door.faults({"url": here.url(), "method": "PUT", "body": [1], "expect": [200]}) == []
    for wrong in (
        {"url": "ftp://x/"},
        {"url": "http://x/", "method": "CONNECT"},
        {"url": "http://x/", "a": 1},
    ):
        assert door.faults(wrong) != []
