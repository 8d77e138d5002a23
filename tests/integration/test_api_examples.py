"""The examples of the API's documentation, carried out in their order: they answer what they say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.api import JSON
from tests.support.door import Door, open_door

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
EXAMPLE = re.compile(r"```http\n(.*?)```\n```json (\d+)\n(.*?)```", re.DOTALL)
JOB = "01890a5d-ac96-774b-bcce-b302099a8057"
# What is another one each time: ids, times, fingerprints, numbers of entries and contracts.
VARIES = re.compile(
    r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z|[0-9a-f]{64}", re.ASCII
)
NUMBERED = {"id", "contract"}


@dataclass(frozen=True)
class Example:
    method: str
    target: str
    headers: dict[str, str]
    body: str
    status: int
    answer: Any


def examples() -> Iterator[Example]:
    for request, status, answer in EXAMPLE.findall(PAGE):
        head, _, body = request.strip().partition("\n\n")
        first, *lines = head.splitlines()
        method, target = first.split(" ")
        headers = dict(line.split(": ", 1) for line in lines)
        yield Example(method, target, headers | (JSON if body else {}), body, int(status), json.loads(answer))


def plain(value: Any) -> Any:
    """The value, with what varies made equal."""
    if isinstance(value, dict):
        return {
            name: 0 if name in NUMBERED and isinstance(item, int) else plain(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [plain(item) for item in value]
    return VARIES.sub("…", value) if isinstance(value, str) else value


@pytest.fixture(scope="module")
def fresh(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("door"), dsn, redis_server.url) as door:
        yield door
    database_server.drop(dsn)


def test_every_example_answers_what_it_says(fresh: Door) -> None:
    tried = list(examples())
    assert len(tried) == PAGE.count("```http") >= 9
    job = JOB
    for one in tried:
        target, body = one.target.replace(JOB, job), one.body.replace(JOB, job)
        answer = fresh.http.request(one.method, target, content=body, headers=one.headers)
        assert answer.status_code == one.status, (one.target, answer.text)
        assert plain(answer.json()) == plain(one.answer), one.target
        # The page speaks of the job that its first example made.
        job = answer.json()["id"] if one is tried[0] else job
