"""Who may ask, and how: hosts, origins, tokens, methods."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api import ECHO
from tests.support.door import Door, open_door


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", ""])
def test_an_unknown_host_is_turned_away(door: Door, host: str) -> None:
    for path in ("/", "/api/v1/nodes", "/readyz", "/metrics", "/nothing"):
        assert door.http.get(path, headers={"Host": host}).status_code == 421
    assert door.http.post("/api/v1/jobs", json=ECHO, headers={"Host": host}).status_code == 421
    assert door.http.get("/livez", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080"])
def test_a_known_host_is_answered(door: Door, host: str) -> None:
    assert door.http.get("/api/v1/nodes", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}]
)
def test_a_page_of_another_site_changes_nothing(door: Door, headers: dict[str, str]) -> None:
    job = door.submit()
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=headers).status_code == 403
    assert door.http.post("/api/v1/jobs", json=ECHO, headers=headers).status_code == 403
    assert door.job(job)["state"] == "queued"
    same = {"Origin": door.url}
    assert door.http.post(f"/api/v1/jobs/{job}/cancel", headers=same).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("DELETE", "/api/v1/jobs", 405), ("GET", "/api/v1/jobs/batch", 405)],
)
def test_every_error_is_a_problem(door: Door, method: str, path: str, status: int) -> None:
    response = door.http.request(method, path)
    assert response.status_code == status
    assert response.json()["status"] == status
    assert response.headers["Content-Type"] == "application/problem+json"


def test_a_token_is_asked_for_where_one_is_set(tmp_path: Path, postgres_dsn: str, redis_url: str) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url, api_token="s3cret-token") as door:
        assert door.http.get("/api/v1/nodes").status_code == 401
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
