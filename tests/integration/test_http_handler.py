"""The `http` handler against real servers: what it sends and takes, where it goes, what it tries again."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path
from typing import Any

import pytest

from mutirao.binding import contract_of
from mutirao.contract import Discard, Retry
from mutirao.explaining import Schema
from mutirao.handlers.http import Http
from mutirao.registry import HandlerConfig
from tests.support.asking import JOB, LOOPBACK, ask
from tests.support.http_server import Site
from tests.support.running import end_of, error_of, runners, task

# -- what is sent and taken


def test_an_answer_is_the_result(here: Site) -> None:
    here.answers["/page?q=1"] = (200, {"ETag": '"x"', "Set-Cookie": "secret", "X-Other": "1"}, "é\0".encode())
    found = ask(here.url("/page?q=1"))
    assert found["status"] == 200
    assert found["body"] == "é\ufffd"
    assert found["url"] == here.url("/page?q=1")
    assert found["headers"]["etag"] == '"x"'
    assert not {"set-cookie", "x-other"} & set(found["headers"])


def test_the_jobs_id_is_the_idempotency_key_unless_another_is_given(here: Site) -> None:
    ask(here.url(), method="POST")
    ask(here.url(), method="POST", headers={"idempotency-KEY": "mine"})
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
    ask(here.url(), method="PUT", body=body)
    assert here.asked[0].body == sent.encode()
    assert here.asked[0].headers.get("content-type") == kind


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_methods(here: Site, method: str) -> None:
    assert ask(here.url(), method=method)["body"] == ("" if method == "HEAD" else "hello")
    assert here.asked[0].method == method


def test_of_a_large_body_the_beginning_is_kept_and_the_rest_counted(here: Site) -> None:
    here.answers["/"] = (200, {}, b"x" * 3_000_000)
    found = ask(here.url())
    assert (len(found["body"]), found["body_dropped"]) == (65536, 3_000_000 - 65536)


def test_an_endless_body_is_read_for_a_mebibyte(here: Site) -> None:
    here.answers["/"] = (200, {"Connection": "close"}, lambda: itertools.repeat(b"x" * 65536))
    found = ask(here.url())
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
    assert ask(here.url())["body"] == text


def test_the_environments_proxies_are_not_used(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    assert ask(here.url())["status"] == 200


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
        ask(here.url())
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
        ask(here.url())
    assert retry.value.after == after


@pytest.mark.parametrize("status", [304, 400, 401, 404, 422])
def test_what_will_not_pass_costs_all_retries(here: Site, status: int) -> None:
    here.answers["/"] = (status, {}, b"")
    with pytest.raises(Discard, match=f"status {status}"):
        ask(here.url())


def test_expected_statuses_are_the_callers(here: Site) -> None:
    assert ask(here.url("/gone"), expect=[404])["status"] == 404
    here.answers["/"] = (503, {}, b"")
    assert ask(here.url(), expect=[200, 503])["status"] == 503
    here.answers["/"] = (200, {}, b"")
    with pytest.raises(Discard, match="status 200"):
        ask(here.url(), expect=[204])


def test_what_goes_wrong_on_the_way_is_tried_again(here: Site) -> None:
    here.answers["/"] = None
    with pytest.raises(Retry, match="RemoteProtocolError") as retry:
        ask(here.url())
    assert retry.value.details == {"error": "RemoteProtocolError"}
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(Retry, match="ConnectError"):
            ask(f"http://127.0.0.1:{closed.getsockname()[1]}/")


def test_the_door_refuses_what_it_can(here: Site) -> None:
    door = Schema(contract_of(Http(LOOPBACK)).payload_schema)
    assert door.faults({"url": here.url(), "method": "PUT", "body": [1], "expect": [200]}) == []
    for wrong in (
        {"url": "ftp://x/"},
        {"url": "http://x/", "method": "CONNECT"},
        {"url": "http://x/", "a": 1},
    ):
        assert door.faults(wrong) != []
