"""Files that change under a running agent: a runner that is replaced takes none but those it knows."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from mutirao.domain.job import Outcome
from mutirao.registry import HandlerConfig
from tests.support.handlers_dir import handlers_dir, program, write
from tests.support.running import HANDLERS, end_of, ends, runners, submit, task

GREETER = """
from mutirao.contract import handler

@handler("greet")
def greet(name: str) -> str:
    return name
"""


@pytest.mark.parametrize("changed", ["greet.py", "another.py"])
def test_a_replaced_runner_waits_for_the_files_it_knows(tmp_path: Path, changed: str) -> None:
    directory = handlers_dir(tmp_path)
    write(directory, "greet.py", GREETER)
    config = HandlerConfig(modules=(HANDLERS,), directory=str(directory)).sealed()
    with runners(tmp_path, count=1, config=config) as made, structlog.testing.capture_logs() as logs:
        assert end_of(made, task("greet", "x")).outcome is Outcome.SUCCEEDED
        path = directory / changed
        before = path.read_text() if path.exists() else None
        write(directory, changed, GREETER.replace("name: str", "name: int").replace("greet", "other"))
        assert end_of(made, task("greet", "x")).outcome is Outcome.SUCCEEDED
        end_of(made, task("crash", {"how": "exit"}))
        wanted = task("greet", "x")
        submit(made, wanted)
        assert made.poll(1.0) == []
        assert "have changed since the agent was started" in str(logs)
        path.unlink() if before is None else write(directory, changed, before)
        assert ends(made, 1)[wanted.job_id].outcome is Outcome.SUCCEEDED


def test_a_program_may_be_replaced_at_any_time(tmp_path: Path) -> None:
    directory = handlers_dir(tmp_path)
    program(directory, "says", "echo 1")
    config = HandlerConfig(modules=(HANDLERS,), directory=str(directory)).sealed()
    with runners(tmp_path, count=1, config=config) as made:
        assert end_of(made, task("says")).result == b"1"
        write(directory, "new", "#!/bin/sh\necho 2\n", 0o755).rename(directory / "says")
        assert end_of(made, task("says")).result == b"2"
        end_of(made, task("crash", {"how": "exit"}))
        assert end_of(made, task("says")).result == b"2"
