"""`mutirao bench` as a user runs it: sane figures, a verified result, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from uuid_utils.compat import uuid7

from mutirao.bench.figures import FIGURES, FLOORS
from mutirao.bench.run import WrongOutcome, verify
from mutirao.domain.job import NewJob
from mutirao.store.bench import Outcomes
from mutirao.store.database import Database
from mutirao.store.jobs import Jobs
from tests.support.waiting import until

SMALL = ("--nodes", "1", "-n", "300", "--idle", "10", "--json")
INTERRUPTED = 130
RUNTIME = re.compile(r"/[^ =:]*/mutirao-[0-9a-f]{12}(?=/)")


class Watched:
    """A running benchmark, and every process that was ever seen below it."""

    def __init__(self, directory: Path) -> None:
        self._output, self._messages = directory / "output", directory / "messages"
        self.below = directory / "below"
        self.below.mkdir()
        if os.geteuid() == 0:
            directory.chmod(0o755)
            self.below.chmod(0o755)
        self.seen: dict[psutil.Process, list[str]] = {}
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MUTIRAO_")}
        with self._output.open("wb") as output, self._messages.open("wb") as messages:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mutirao", "bench", *SMALL, "--directory", str(self.below)],
                stdin=subprocess.DEVNULL, stdout=output, stderr=messages, env=environment,
            )  # fmt: skip

    def look(self) -> None:
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                self.seen.setdefault(child, []).extend(child.cmdline())
            except psutil.Error:
                continue

    def has(self, argument: str) -> bool:
        """True once a process below it was started with this argument."""
        self.look()
        return any(argument in command for command in self.seen.values())

    def ended(self) -> int:
        """Its exit status, once it has ended."""

        def over() -> bool:
            if self.process.poll() is None:
                self.look()
            return self.process.poll() is not None

        until(over, 90, "the benchmark ended")
        return self.process.returncode

    def output(self) -> str:
        return self._output.read_text()

    def messages(self) -> str:
        return self._messages.read_text()

    def nothing_left(self) -> None:
        """No process, no data directory, no runtime directory."""
        assert [command for child, command in self.seen.items() if child.is_running()] == []
        assert list(self.below.iterdir()) == []
        runtime = {name for command in self.seen.values() for name in RUNTIME.findall(" ".join(command))}
        assert len(runtime) == 1
        assert not Path(runtime.pop()).exists()


@pytest.fixture
def bench() -> Iterator[Watched]:
    directory = Path(tempfile.mkdtemp(prefix="mutirao-test-bench-"))
    watched = Watched(directory)
    yield watched
    watched.process.kill()
    watched.process.wait(10)
    shutil.rmtree(directory, ignore_errors=True)


def test_a_small_run_yields_figures_and_leaves_nothing(bench: Watched) -> None:
    assert bench.ended() == 0, bench.messages()
    document = json.loads(bench.output())
    assert (document["nodes"], document["jobs"], document["idle"], document["repeat"]) == (1, 300, 10, 1)
    assert set(document["figures"]) == {figure.name for figure in FIGURES}
    assert set(document["floors"]) == set(FLOORS)
    assert all(floor["median"] > 0 for floor in document["floors"].values())
    for figure in FIGURES:
        shown = document["figures"][figure.name]
        if figure.name.startswith("idle_claim"):
            # The claim may commit before the answer to its submission has arrived.
            assert shown["median"] > -1000
        else:
            assert shown["median"] > 0
            assert 0 < shown["ratio"] < 10
    assert document["figures"]["idle_start_p50"]["median"] <= document["figures"]["idle_start_p99"]["median"]
    bench.nothing_left()


def test_an_interrupted_run_leaves_nothing(bench: Watched) -> None:
    until(lambda: bench.has("agent") and bench.has("web"), 60, "its nodes run")
    bench.process.send_signal(signal.SIGINT)
    assert bench.ended() == INTERRUPTED, bench.messages()
    assert bench.output() == ""
    bench.nothing_left()


def test_a_job_that_did_not_succeed_spoils_the_result(postgres_dsn: str) -> None:
    database = Database(postgres_dsn, application_name="test")
    try:
        verify(Outcomes(database), 0)
        Jobs(database).submit([NewJob(uuid7(), "echo", "{}")])
        with pytest.raises(WrongOutcome, match="'live': 1, 'finished': 0"):
            verify(Outcomes(database), 1)
    finally:
        database.close()
