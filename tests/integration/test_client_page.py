"""What docs/client.md shows works as shown, on a web server whose node runs what comes in."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import mutirao.client
from mutirao import Client
from mutirao.domain.job import Outcome
from tests.support.door import Door, open_door

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EDGES = '["http://edge-1:8080", "http://edge-2:8080", "http://edge-3:8080"]'


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("client-page"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


@contextmanager
def working(door: Door, queue: str) -> Iterator[None]:
    """Meanwhile the node runs what is queued, `echo` as itself and `fail` to its death."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.05):
            found = door.http.get("/api/v1/jobs", params={"state": "queued", "queue": queue, "limit": "50"})
            for job in found.json()["jobs"]:
                if job["handler"] == "fail":
                    door.node.kill_off(job["id"])
                else:
                    door.node.end(job["id"], door.node.start(job["id"]), Outcome.SUCCEEDED, result="1")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)


def test_the_examples_run_one_after_the_other(
    door: Door, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUTIRAO_URL", door.url)
    known: dict[str, Any] = {}
    for example in EXAMPLES:
        runs = "client.result" in example
        with working(door, "default") if runs else nullcontext():
            exec(example.replace(EDGES, "None"), known)
        # Thousands that nobody waits for must not stand before the next example's jobs.
        with door.node.database.transaction() as tx:
            tx.execute("TRUNCATE jobs")
    told = capsys.readouterr().out
    assert "2500 True" in told
    assert "dead no luck" in told
    assert "12345678901234567890123 ['submitted'" in told


def test_the_page_names_every_call_and_every_error() -> None:
    calls = [name for name, thing in vars(Client).items() if callable(thing) and not name.startswith("_")]
    missing = [name for name in calls if f"`{name}" not in PAGE and f"client.{name}(" not in PAGE]
    assert missing == ["close"]
    exported = {name: getattr(mutirao.client, name) for name in mutirao.client.__all__}
    errors = [name for name, one in exported.items() if isinstance(one, type) and issubclass(one, Exception)]
    assert sorted(errors) == ["InvalidValue", "JobFailed", "WaitTimeout"]
    assert [name for name in errors if f"| `{name}` |" not in PAGE] == []
