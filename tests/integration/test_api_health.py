"""Health and metrics of a web server."""

from __future__ import annotations

from uuid import uuid4

from tests.support.door import Door


def test_health_and_metrics(door: Door) -> None:
    assert door.http.get("/livez").json()["status"] == "alive"
    ready = door.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"], ready.json()["node"]) == (200, "ready", "node-1")
    door.node.keep_house()
    door.submit()
    text = door.http.get("/metrics").text
    assert 'mutirao_jobs{state="queued"}' in text
    assert "mutirao_store_up 1.0" in text
    assert 'mutirao_http_requests_total{method="POST",route="/api/v1/jobs",status="201"}' in text


def test_series_do_not_grow_with_paths_methods_or_names(door: Door) -> None:
    def series() -> int:
        return len([line for line in door.http.get("/metrics").text.splitlines() if not line.startswith("#")])

    def wander() -> None:
        for _ in range(20):
            door.http.get(f"/{uuid4()}")
            door.http.request(f"M{uuid4().hex[:8].upper()}", "/api/v1/jobs")
            door.http.get(f"/api/v1/jobs/{uuid4()}")
            door.submit(queue=f"q{uuid4().hex}")

    series()
    wander()
    before = series()
    wander()
    assert series() == before
