"""Thousands of generated calls to a real server: no 5xx, and every answer is as the API's document says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import schemathesis_hooks
from tests.support.door import Door, open_door

EXAMPLES = 75
CALLS = 2000
# CI tries the same calls each time, people try new ones; neither keeps any.
SAME = ("--generation-deterministic",) if "CI" in os.environ else ("--generation-database", "none")


@pytest.fixture
def lived_in(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Door]:
    """A door behind which there are jobs in many states, so that there is something to act on."""
    with open_door(tmp_path, postgres_dsn, redis_url) as door:
        for job in [door.submit(max_retries=0) for _ in range(60)][:50]:
            door.node.kill_off(job)
        yield door


def run(door: Door, directory: Path) -> subprocess.CompletedProcess[str]:
    """Lets schemathesis call every operation: at the edges, at random, and one after the other."""
    options = [
        *("--checks", "all", "--max-examples", str(EXAMPLES), *SAME),
        # Strict JSON refuses NUL wherever it is, which a schema cannot say: test_api_input tries it.
        *("--generation-allow-x00", "false"),
        *("--suppress-health-check", "all", "--warnings", "off", "--no-color"),
    ]
    program, hook_file = Path(sys.executable).with_name("schemathesis"), Path(schemathesis_hooks.__file__)
    config = ("--config-file", hook_file.with_name("schemathesis.toml"))
    command = [program, *config, "run", f"{door.url}/api/v1/openapi.json"]
    hooks = {"SCHEMATHESIS_HOOKS": str(hook_file)}
    return subprocess.run(
        [*command, *options],
        cwd=directory,
        env={**os.environ, **hooks},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.timeout(300)  # half a minute, on a machine that does nothing else
def test_thousands_of_calls_are_answered_as_the_document_says(lived_in: Door, tmp_path: Path) -> None:
    done = run(lived_in, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    calls = re.search(r"(\d+) generated, (\d+) passed", done.stdout)
    assert calls is not None, done.stdout
    assert int(calls[1]) >= CALLS
    statuses = answered(lived_in)
    assert {"200", "201", "404", "405", "409", "422"} <= statuses
    assert not any(status.startswith("5") for status in statuses)


def answered(door: Door) -> set[str]:
    """The statuses that the server itself has counted."""
    metrics: Any = door.http.get("/metrics").text
    return set(re.findall(r'^mutirao_http_requests_total\{.*status="(\d+)".*\}', metrics, re.MULTILINE))
