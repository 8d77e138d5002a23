"""Who may ask, and how: hosts, origins, tokens, methods."""

from __future__ import annotations

import json
import re
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.api import ECHO, PROBLEM
from tests.support.door import Door, open_door


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_an_unknown_host_is_turned_away(door: Door, host: str) -> None:
    for path in ("/", "/api/v1/nodes", "/readyz", "/metrics", "/nothing"):
        assert door.http.get(path, headers={"Host": host}).status_code == 421
    assert door.http.post("/api/v1/jobs", json=ECHO, headers={"Host": host}).status_code == 421
    assert door.http.get("/livez", headers={"Host": host}).status_code == 200


UNKNOWN = (
    *("evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""),
    *("user@localhost", "localhost@evil", "localhost/evil", "localhost localhost", "localhost.."),
    *(
        "localhost:abc",
        "localhost:80:80",
        "127.1",
        "0x7f.1",
        "::1",
        "[::1",
        "[::1]x",
        "[::1].",
        "[localhost]",
    ),
)


@pytest.mark.parametrize("host", UNKNOWN)
def test_what_is_no_known_host_in_any_reading_is_turned_away(door: Door, host: str) -> None:
    assert ask(door, "GET", "/api/v1/nodes", host).startswith(b"HTTP/1.1 421 ")


KNOWN = (
    *("localhost", "LOCALHOST:1", "localhost.", "localhost.:80", "localhost:", "127.0.0.1:8080"),
    *("[::1]", "[::1]:8080", "[0:0:0:0:0:0:0:1]:8080"),
)


@pytest.mark.parametrize("host", KNOWN)
def test_a_known_host_is_answered(door: Door, host: str) -> None:
    assert ask(door, "GET", "/api/v1/nodes", host).startswith(b"HTTP/1.1 200 ")


def test_a_target_with_a_host_of_its_own_must_be_known_too(door: Door) -> None:
    own = door.url.removeprefix("http://")
    for target, host, status in (
        ("http://localhost/api/v1/nodes", own, 200),
        ("http://evil.example/api/v1/nodes", own, 421),
        ("http://localhost/api/v1/nodes", "evil.example", 421),
        ("http://[::1/api/v1/nodes", own, 400),
    ):
        assert ask(door, "GET", target, host).startswith(f"HTTP/1.1 {status} ".encode()), target


def ask(door: Door, method: str, target: str, host: str) -> bytes:
    """The raw answer to a request that no client would send."""
    return door.raw(f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Origin": ""},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_of_another_site_changes_nothing(door: Door, headers: dict[str, str]) -> None:
    job = door.submit()
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=headers).status_code == 403
    assert door.http.post("/api/v1/jobs", json=ECHO, headers=headers).status_code == 403
    assert door.job(job)["state"] == "queued"
    same = {"Origin": door.url}
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=same).status_code == 200


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "QUERY", "ODD"])
@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/v1/jobs", {"GET", "HEAD", "POST"}),
        ("/api/v1/jobs/batch", {"POST"}),
        (f"/api/v1/jobs/{uuid4()}", {"GET", "HEAD"}),
        (f"/api/v1/jobs/{uuid4()}/cancel", {"POST"}),
        ("/api/v1/dead-letters/replay", {"POST"}),
        ("/api/v1/openapi.json", {"GET", "HEAD"}),
        ("/api/v1/nothing", set()),
        ("/api/v1/nodes/", set()),
        ("/api/v1//nodes", set()),
        ("/api/v1/../v1/nodes", set()),
        ("/api", set()),
        ("/nothing", set()),
    ],
)
def test_a_path_has_its_methods_and_every_error_is_a_problem(
    door: Door, method: str, path: str, allowed: set[str]
) -> None:
    head, _, body = ask(door, method, path, "localhost").decode().partition("\r\n\r\n")
    status = int(head.split()[1])
    if method in allowed:
        assert status in {200, 404, 415}, head
    else:
        assert status == (405 if allowed else 404), head
        listed = re.search("^Allow: (.*)\r$", head, re.MULTILINE)
        assert set(listed[1].split(", ") if listed else []) == (allowed | {"OPTIONS"} if allowed else set())
    if status >= 400:
        assert f"Content-Type: {PROBLEM}" in head
        assert method == "HEAD" or json.loads(body)["status"] == status
    assert not (method == "HEAD" and body)


def test_options_say_what_is_allowed_and_nothing_else(door: Door) -> None:
    answer = door.http.options("/api/v1/jobs")
    assert (answer.status_code, answer.headers["Allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    assert not answer.content
    assert door.http.options("/api/v1/nothing").status_code == 404


def test_a_head_is_a_get_without_its_body(door: Door) -> None:
    job = door.submit()
    head, get = (door.http.request(method, f"/api/v1/jobs/{job}") for method in ("HEAD", "GET"))
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["Content-Length"] == get.headers["Content-Length"] == str(len(get.content))


def test_a_token_is_asked_for_where_one_is_set(tmp_path: Path, postgres_dsn: str, redis_url: str) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url, api_token="s3cret-token") as door:
        assert door.http.get("/api/v1/nodes").status_code == 401
        for target in (
            "//api/v1/nodes",
            "/api/v1/./nodes",
            "/%61pi/v1/nodes",
            "http://localhost/api/v1/nodes",
        ):
            assert ask(door, "GET", target, "localhost").split()[1] in {b"401", b"404"}, target
        wrong = {"Authorization": "Bearer s3cret-tokem"}
        answer = door.http.post("/api/v1/jobs", json=ECHO, headers=wrong)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert door.count() == 0
        right = {"Authorization": "Bearer s3cret-token"}
        assert door.http.post("/api/v1/jobs", json=ECHO, headers=right).status_code == 201
        for path in ("/metrics", "/", "/nothing"):
            answer = door.http.get(path)
            assert (answer.status_code, answer.headers["WWW-Authenticate"].split()[0]) == (401, "Basic")
        assert [door.http.get(path, headers=right).status_code for path in ("/metrics", "/")] == [200, 200]
        # What a browser sends once its user has typed the token; nothing else of that kind.
        assert door.http.get("/", auth=("anybody", "s3cret-token")).status_code == 200
        for mere in ("Basic s3cret-token", "Basic", "Basic czNjcmV0LXRva2Vu", "s3cret-token", "bearer"):
            assert door.http.get("/", headers={"Authorization": mere}).status_code == 401
        assert door.http.get("/livez").status_code == 200
        assert door.http.get("/readyz").json() == {"status": "ready"}
        assert door.http.get("/readyz", headers=right).json()["node"] == "node-1"


def test_what_is_too_long_to_be_read_is_refused(door: Door) -> None:
    assert door.http.get(f"/api/v1/jobs?cursor={'x' * 9000}").status_code == 414
    assert door.http.get("/api/v1/jobs", headers={"X-Long": "x" * 17_000}).status_code == 431
    assert door.http.get("/api/v1/jobs", headers={"X-Long": "x" * 16_000}).status_code == 200
