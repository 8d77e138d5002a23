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
# What is another one each time: ids, times, and measured seconds.
VARIES = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z")


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
        return {name: plain(item) for name, item in value.items()}
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
    assert len(tried) == PAGE.count("```http") >= 6
    for one in tried:
        answer = fresh.http.request(one.method, one.target, content=one.body, headers=one.headers)
        assert answer.status_code == one.status, (one.target, answer.text)
        assert plain(answer.json()) == plain(one.answer), one.target
