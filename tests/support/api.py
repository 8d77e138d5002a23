"""What tests of the REST API say again and again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.support.door import Door

ECHO = {"handler": "echo", "payload": {"message": "hello"}}
JSON = {"Content-Type": "application/json"}
PROBLEM = "application/problem+json"


def refused(door: Door, body: dict[str, Any] | bytes, status: int = 422, path: str = "") -> dict[str, Any]:
    """The problem with which the body is refused; nothing may have been stored."""
    before = door.count()
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    path = path or ("/api/v1/jobs/batch" if b'"jobs"' in content[:20] else "/api/v1/jobs")
    response = door.http.post(path, content=content, headers=JSON)
    assert response.status_code == status, response.text
    assert response.headers["Content-Type"] == PROBLEM
    problem: dict[str, Any] = response.json()
    assert problem["status"] == status
    assert {"type", "title", "detail"} <= problem.keys()
    assert door.count() == before
    return problem


def fields(problem: dict[str, Any]) -> set[str]:
    """The fields that a problem names."""
    return {error["field"] for error in problem["errors"]}


def pages(door: Door, path: str, items: str, **query: object) -> Iterator[list[dict[str, Any]]]:
    """Every page of a list."""
    cursor = None
    while True:
        given = {name: str(value) for name, value in query.items()} | ({"cursor": cursor} if cursor else {})
        response = door.http.get(path, params=given)
        assert response.status_code == 200, response.text
        yield response.json()[items]
        cursor = response.json()["next_cursor"]
        if cursor is None:
            return


def submit_text(door: Door, payload: str, handler: str = "anything") -> str:
    """The id of a new job whose payload is this JSON text."""
    body = f'{{"handler": "{handler}", "payload": {payload}}}'.encode()
    response = door.http.post("/api/v1/jobs", content=body, headers=JSON)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])
