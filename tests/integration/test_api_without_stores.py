"""The door while a store is away, frozen, or ends its connections (I10)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from tests.support.api import ECHO, PROBLEM
from tests.support.door import Door, open_door
from tests.support.stage import at_once
from tests.support.waiting import until

DOCUMENT = "/api/v1/openapi.json"
NOBODY = UUID(int=1)
BODIES = {
    "/api/v1/jobs": ECHO,
    "/api/v1/jobs/batch": {"jobs": [ECHO]},
    "/api/v1/dead-letters/replay": {"ids": [str(NOBODY)]},
    "/api/v1/dead-letters/discard": {"filter": {}},
}


def calls(door: Door) -> list[tuple[str, str, Any]]:
    """A right call of every operation that asks the store."""
    paths = door.http.get(DOCUMENT).json()["paths"]
    query = {"/api/v1/jobs/summaries": f"?ids={NOBODY}"}
    return [
        (
            method.upper(),
            path.format(job_id=NOBODY, name="echo") + query.get(path, ""),
            BODIES.get(path) if "requestBody" in operation else None,
        )
        for path, methods in paths.items()
        for method, operation in methods.items()
        if path != DOCUMENT
    ]


def ask(door: Door, method: str, path: str, body: Any) -> httpx.Response:
    return door.http.request(method, path, json=body)


def test_without_redis_everything_works(tmp_path: Path, postgres_dsn: str) -> None:
    """I10: Redis away costs a wake-up, never a request."""
    with open_door(tmp_path, postgres_dsn, f"unix://{tmp_path}/nowhere.sock") as door:
        job = door.submit()
        assert door.http.post(f"/api/v1/jobs/{job}/cancel").status_code == 200
        for method, path, body in calls(door):
            # The ids of what is asked about are nobody's.
            wanted = {404} if f"/{NOBODY}" in path else {200, 201}
            assert ask(door, method, path, body).status_code in wanted, path
        ready = door.http.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["dependencies"]["redis"]["ok"] is False
        assert ready.json()["dependencies"]["redis"]["detail"]


def test_without_postgres_the_answer_is_503_and_all_is_well_again_afterwards(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        door.submit()
        database_server.postgres.stop()
        try:
            # Whoever finds out waits a while; a rush that comes after that is answered in time.
            assert door.http.get("/api/v1/nodes").status_code == 503
            asked = [("GET", "/", None), ("GET", "/readyz", None), *calls(door)]
            answers = at_once([partial(ask, door, *one) for one in asked])
            for (method, path, _), answer in zip(asked, answers, strict=True):
                assert answer.status_code == 503, (method, path, answer.text)
                assert int(answer.headers["Retry-After"]) > 0
            assert {answer.headers["Content-Type"] for answer in answers[2:]} == {PROBLEM}
            rush = [partial(door.http.get, "/api/v1/nodes", timeout=5.0)] * 40
            assert {answer.status_code for answer in at_once(rush)} == {503}
            assert door.http.get(DOCUMENT).status_code == 200
            assert door.http.get("/readyz").json()["dependencies"]["postgres"]["ok"] is False
            assert door.http.get("/livez").status_code == 200
            assert "mutirao_store_up 0.0" in door.http.get("/metrics").text
        finally:
            database_server.postgres.start()
        until(lambda: door.http.get("/readyz").status_code == 200, 30, "ready again")
        assert door.submit()


def test_a_frozen_postgres_is_noticed_and_named(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    import psutil

    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        assert door.http.get("/readyz").status_code == 200
        server = psutil.Process(database_server.postgres.process.pid)
        frozen = [server, *server.children(recursive=True)]
        for process in frozen:
            process.suspend()
        try:
            ready = door.http.get("/readyz")
            assert ready.status_code == 503
            assert "did not answer" in ready.json()["dependencies"]["postgres"]["detail"]
            assert door.http.get("/livez").status_code == 200
            assert "mutirao_store_up 0.0" in door.http.get("/metrics", timeout=5.0).text
        finally:
            for process in frozen:
                process.resume()
        until(lambda: door.http.get("/readyz").status_code == 200, 30, "ready again")


def test_a_terminated_connection_costs_no_request(
    tmp_path: Path, database_server: Any, postgres_dsn: str, redis_url: str
) -> None:
    import psycopg

    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        door.submit()
        with psycopg.connect(database_server.superuser_dsn(postgres_dsn), autocommit=True) as connection:
            ended = connection.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE application_name LIKE 'mutirao-web%'"
            ).fetchone()
        assert ended is not None
        assert ended[0] >= 1
        assert door.submit()
