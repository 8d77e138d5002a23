"""docs/quickstart.md, followed step by step as a newcomer would: its files, its commands, what it shows."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from tests.acceptance.conftest import NewCluster
from tests.support.cluster import ROOT, Cluster
from tests.support.processes import alive
from tests.support.waiting import until

PAGE = (ROOT / "docs" / "quickstart.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)(?: ([\w.]+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
JOB = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
# Done by whoever runs the tests, or meant for the newcomer's shell alone.
PREPARED = ("scripts/install", "export PATH=", "umask ")
# All other commands end with 0.
STATUS = {"mesage": 2, "/nowhere": 1}


class Newcomer:
    """Two terminals: `mutirao up` in the one, everything else in the other."""

    def __init__(self, cluster: Cluster, home: Path) -> None:
        self.cluster = cluster
        self.home = home
        self.said: list[tuple[str, str]] = []
        self.jobs: list[UUID] = []
        cluster.environment = {"HOME": str(home), "MUTIRAO_HANDLER_MODULES": ""}

    def follow(self, block: re.Match[str]) -> None:
        """Does what one block of the page says."""
        kind, file, text = block.groups()
        if file:
            (self.home / "handlers" / file).write_text(text)
        elif kind == "console":
            for line, shown in commands(text):
                self.type(line, shown)
        else:
            self.said.append(("python", self._run([sys.executable, "-c", self._at_its_port(text)], 0)))

    def type(self, line: str, shown: str) -> None:
        """Types one line, and compares what it prints with what the page shows, if it shows anything."""
        if line.startswith(PREPARED):
            return
        if line.startswith("mutirao up "):
            self._up(shlex.split(line.replace("~", str(self.home)))[2:])
            return
        status = next((status for part, status in STATUS.items() if part in line), 0)
        if self.jobs:
            line = re.sub(r"\bID\b", str(self.jobs[-1]), line)
        line = re.sub(r"\bPID\b", lambda _: str(self.agent()), line)
        printed = self._run(["bash", "-c", f"umask 022; {line}"], status)
        self.said.append((line, printed))
        if line.startswith(("mutirao submit", "for ")):
            self.jobs += map(UUID, JOB.findall(printed))
        if shown:
            assert plain(printed) == plain(shown), line

    def printed_by(self, part: str) -> str:
        """What the last command that holds `part` has printed."""
        return next(printed for line, printed in reversed(self.said) if part in line)

    def _up(self, options: list[str]) -> None:
        if self.cluster.process is not None:
            assert self.cluster.stop() == 0
        self.cluster.options = options
        self.cluster.start()

    def agent(self) -> int:
        """The last agent's pid that `up` has printed."""
        pids = re.findall(r"agent pid (\d+)$", (self.cluster.run / "up.log").read_text(), re.MULTILINE)
        return int(pids[-1])

    def _run(self, argv: list[str], status: int) -> str:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = {"HOME": str(self.home), "PATH": path, "LANG": "C.UTF-8", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            argv,
            cwd=ROOT,
            env={**environment, "MUTIRAO_URL": self._at_its_port("http://127.0.0.1:8080")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == status, f"{argv[-1]} exited with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def _at_its_port(self, text: str) -> str:
        port = self.cluster.port
        return re.sub(r"127\.0\.0\.1:808(\d)", lambda found: f"127.0.0.1:{port + int(found[1])}", text)


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield line, shown


def plain(text: str) -> list[str]:
    """Lines without what differs each time: ids, nodes, the width of a column."""
    return [re.sub(r"\bnode-\d\b", "node", JOB.sub("ID", line)).rstrip() for line in text.splitlines()]


@pytest.mark.timeout(240, method="signal")
def test_the_quickstart_works_as_written(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    home = cluster.run / "home"
    home.mkdir()
    reader = Newcomer(cluster, home)
    blocks = list(BLOCK.finditer(PAGE))
    assert len(blocks) >= 12
    for block in blocks:
        reader.follow(block)

    for found in ("word-count  fine", "line_count  fine"):
        assert found in reader.printed_by("handlers check")
    assert "INFO attempt 1, 22 characters" in reader.printed_by("jobs output")
    assert "words" in reader.printed_by("jobs show")
    assert re.search(r'"lines": [1-9]', reader.printed_by("/etc/passwd"))
    dead = reader.printed_by("dead-letter show")
    assert "there is no file /nowhere" in dead
    assert dead.count("Discard: exit status 65") == 2
    assert reader.printed_by("python") == "{'words': 5}\n"

    killed, broken = reader.agent(), reader.jobs[-6:]
    assert not alive(killed)
    assert f"(pid {killed}) was killed by SIGKILL; starting it again" in cluster.log_tail()
    until(lambda: all(cluster.state(job) == "succeeded" for job in broken), 30, "all six done")
    assert cluster.rows("SELECT max(attempt) FROM finished_jobs WHERE handler = 'sleep'") == [(2,)]
