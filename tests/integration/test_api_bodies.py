"""A body is whole, bounded and JSON, or it is no job (I9; FAILURES: Input)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from mutirao.web.bodies import MAX_BATCH_BODY, MAX_BODY
from tests.support.api import ECHO, JSON, fields, refused
from tests.support.door import Door


def padded(size: int) -> bytes:
    """A valid body of exactly `size` bytes."""
    frame = b'{"handler": "echo", "payload": {"message": "%s"}}'
    return frame % (b"x" * (size - len(frame) + 2))


def chunks(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 60_000):
        yield body[start : start + 60_000]


@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
@pytest.mark.parametrize(("more", "status"), [(-1, 201), (0, 201), (1, 413), (5_000_000, 413)])
def test_the_limit_of_a_body_is_exact(door: Door, chunked: bool, more: int, status: int) -> None:
    body = padded(MAX_BODY + more)
    response = door.http.post("/api/v1/jobs", content=chunks(body) if chunked else body, headers=JSON)
    assert response.status_code == status, response.text[:200]
    if status == 201:
        message = door.job(response.json()["id"])["payload"]["message"]
        assert len(message) == len(json.loads(body)["payload"]["message"])


def test_a_batch_may_be_larger_but_not_each_payload(door: Door) -> None:
    job = {"handler": "echo", "payload": {"message": "x" * 900_000}}
    large = door.http.post("/api/v1/jobs/batch", json={"jobs": [job] * 5})
    assert large.status_code == 201
    over = {"handler": "echo", "payload": {"message": "x" * (1 << 20)}}
    assert fields(refused(door, {"jobs": [ECHO, over]})) == {"jobs.1.payload"}
    body = b'{"jobs": [' + b" " * MAX_BATCH_BODY + b"]}"
    assert refused(door, body, 413)["detail"] == f"the body may have at most {MAX_BATCH_BODY} bytes"


@pytest.mark.parametrize(
    ("framing", "suffix"),
    [
        (b"Content-Length: 500\r\n\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n200\r\n", b""),
        (b"Transfer-Encoding: chunked\r\n\r\n34\r\n", b"\r\n"),
    ],
    ids=["by its length", "inside a chunk", "before the last chunk"],
)
def test_a_body_cut_short_is_no_job(door: Door, framing: bytes, suffix: bytes) -> None:
    before, body = door.count(), json.dumps(ECHO).encode()
    assert len(body) == 0x34
    host = door.url.removeprefix("http://")
    head = f"POST /api/v1/jobs HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n".encode()
    with socket.create_connection((host.split(":")[0], int(host.split(":")[1])), timeout=10) as connection:
        connection.sendall(head + framing + body + suffix)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(65536).startswith(b"HTTP/1.1 400 ")
    assert door.count() == before


@pytest.mark.parametrize("body", [b"{}", b'{"attempt": 1}', b" ", b"x" * 3_000_000], ids=len)
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_body_where_none_is_taken_is_refused_not_ignored(door: Door, chunked: bool, body: bytes) -> None:
    job = door.submit()
    content = chunks(body) if chunked else body
    for method, path in (("POST", f"/api/v1/jobs/{job}/cancel"), ("GET", f"/api/v1/jobs/{job}")):
        answer = door.http.request(method, path, content=content, headers=JSON)
        assert answer.status_code == 422, answer.text
        assert "takes no body" in answer.json()["detail"]
        content = body
    assert door.job(job)["state"] == "queued"
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", content=b"").status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"Content-Type": "text/plain"}, {}, {**JSON, "Content-Encoding": "gzip"}],
    ids=["text", "none", "encoded"],
)
def test_only_plain_json_is_read(door: Door, headers: dict[str, str]) -> None:
    response = door.http.post("/api/v1/jobs", content=json.dumps(ECHO), headers=headers)
    assert response.status_code == 415
