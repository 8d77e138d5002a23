"""The `mutirao` command as a process of its own, as people and scripts start it."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.door import Door

MUTIRAO = [sys.executable, "-m", "mutirao"]


def run(
    door: Door | None, *arguments: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """One `mutirao …`, with MUTIRAO_URL naming the door."""
    url = {"MUTIRAO_URL": door.url} if door else {}
    return subprocess.run(
        [*MUTIRAO, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **url, **environment},
    )


def ok(door: Door | None, *arguments: str, stdin: str = "") -> str:
    """What a `mutirao …` prints that must exit with 0."""
    done = run(door, *arguments, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout
