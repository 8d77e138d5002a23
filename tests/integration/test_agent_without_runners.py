"""A node none of whose runners can load the handlers: it takes nothing, and nothing is stuck there (I7)."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.agents import AgentProcess, Site, site
from tests.support.versions import version
from tests.support.waiting import until


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def kill_runners(agent: AgentProcess) -> None:
    """All of them, as an out-of-memory killer would."""
    for pid in agent.descendants():
        if "mutirao.agent.runner_process" in psutil.Process(pid).cmdline():
            os.kill(pid, signal.SIGKILL)


def failures(agent: AgentProcess, count: int) -> None:
    """Returns once so many runners have found the files changed."""
    until(lambda: len(agent.events("runner_without_handlers")) >= count, 20.0, f"{count} failures")


def test_what_its_runners_cannot_load_it_takes_no_jobs_for(made: Site) -> None:
    module = Path(version(made.directory, 1))
    node = made.agent("node-1", slots=1).start(handler_modules=[str(module)]).serving()
    made.becomes(made.submit("echo", {"message": "before"}), "succeeded")
    text = module.read_text()
    module.write_text(text + "# changed")
    kill_runners(node)
    failures(node, 1)
    until(lambda: made.stage.rows("SELECT capacity FROM beats")[0].capacity == 0, 5.0, "it says so")
    job = made.submit("echo", {"message": "meanwhile"})
    failures(node, len(node.events("runner_without_handlers")) + 2)
    assert made.stage.steps(job) == [("submitted", None, "queued")]
    module.write_text(text)
    made.becomes(job, "succeeded")
    assert made.stage.row(job).attempt == 1
