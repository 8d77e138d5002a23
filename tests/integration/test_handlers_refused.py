"""An agent with a wrong handlers directory does not start, and says where to look."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.handlers_dir import handlers_dir, program, write


@pytest.mark.parametrize(
    ("line", "says", "hint"),
    [
        ('handlers_dir = "{tmp}/handlers"', "{tmp}/handlers/tool is not executable", "hint: chmod +x {tmp}/"),
        ('commands = ["{tmp}/nowhere"]', "{tmp}/nowhere: No such file or directory", ""),
        ('http_hosts = ["2130706433"]', "`http_hosts`: '2130706433' is no host", ""),
    ],
)
def test_an_agent_that_cannot_have_its_handlers_ends_with_2(
    tmp_path: Path, line: str, says: str, hint: str
) -> None:
    program(handlers_dir(tmp_path), "tool", "cat").chmod(0o644)
    stores = 'postgres = "postgresql:///nowhere"\nredis = "unix:///nowhere"\n'
    places = f'state_dir = "{tmp_path}/state"\nruntime_dir = "{tmp_path}/run"\n'
    config = write(tmp_path, "mutirao.toml", stores + places + line.format(tmp=tmp_path), 0o600)
    command = [sys.executable, "-m", "mutirao", "agent", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, check=False, text=True, timeout=30)
    assert ended.returncode == 2
    assert says.format(tmp=tmp_path) in ended.stderr
    assert "Traceback" not in ended.stderr
    assert hint.format(tmp=tmp_path) in ended.stderr
