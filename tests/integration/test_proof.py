"""Proof of death (DESIGN §5, Restart): what counts, and what does not."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mutirao.agent.guard_link import MARKER
from mutirao.agent.proctree import limit_mark
from mutirao.agent.proof import end_marked, find_marked
from tests.support.processes import alive, send
from tests.support.running import pids_in, runners, submit, task
from tests.support.waiting import until

LOCKER = """
import fcntl, subprocess, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print(subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL).pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def node() -> Iterator[UUID]:
    """A node's id, nothing of which is left after the test."""
    node = uuid4()
    yield node
    assert end_marked(node, grace=0.0)


def _marked(node: UUID, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, env=os.environ | {MARKER: str(node)}, stdout=subprocess.PIPE, text=True)


def test_a_lock_is_no_proof_a_marker_is(tmp_path: Path, node: UUID) -> None:
    holder = _marked(node, sys.executable, "-c", LOCKER, str(tmp_path / "lock"))
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    with (tmp_path / "lock").open() as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        holder.kill()
        holder.wait()
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert alive(child), "the lock is free, and what ran under it still runs"
    assert find_marked(node) == [child]
    assert end_marked(node, grace=0.0)
    assert not alive(child)


def test_hidden_children_of_a_dead_guard_are_found_by_their_limits(tmp_path: Path, node: UUID) -> None:
    program = "import sys, uuid; from mutirao.agent.proctree import mark_by_limit; import os;"
    program += "mark_by_limit(uuid.UUID(sys.argv[1]).int); os.execvp(sys.argv[2], sys.argv[2:])"
    hidden = [
        shutil.which("env") or "",
        "-i",
        shutil.which("setsid") or "",
        shutil.which("sleep") or "",
        "600",
    ]
    child = subprocess.Popen([sys.executable, "-c", program, str(node), *hidden])
    until(lambda: Path(f"/proc/{child.pid}/comm").read_text() == "sleep\n", 10, "the child hidden")
    assert MARKER.encode() not in Path(f"/proc/{child.pid}/environ").read_bytes()
    assert find_marked(node) == [child.pid]
    assert end_marked(node, grace=0.0)
    assert child.wait(5) == -signal.SIGKILL


def test_all_that_a_killed_guard_and_its_agent_leave_is_found(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        submit(made, task("spawn_setsid", {"pids": str(tmp_path / "pids")}))
        pids = pids_in(tmp_path / "pids")
        assert set(pids) < set(find_marked(made._node_id))
        send(made.guard_pid, signal.SIGSTOP)
        assert end_marked(made._node_id, grace=0.0)
        assert [pid for pid in pids if alive(pid)] == []
        assert find_marked(made._node_id) == []


def test_others_are_left_alone(node: UUID) -> None:
    other = uuid4()
    stranger = _marked(other, "sleep", "600")
    mine = _marked(node, "sleep", "600")
    until(lambda: find_marked(node) == [mine.pid], 5, "mine found")
    assert end_marked(node, grace=0.0)
    assert mine.wait(5) == -signal.SIGKILL
    assert alive(stranger.pid)
    assert end_marked(other, grace=0.0)
    stranger.wait(5)


def test_it_never_ends_itself(monkeypatch: pytest.MonkeyPatch, node: UUID) -> None:
    program = f"from mutirao.agent.proof import *; from uuid import UUID; print(end_marked(UUID('{node}')))"
    itself = _marked(node, sys.executable, "-c", program)
    assert itself.communicate(timeout=20)[0] == "True\n"


def test_the_dead_and_unreaped_do_not_stand_in_the_way(node: UUID) -> None:
    zombie = _marked(node, "true")
    until(lambda: not alive(zombie.pid), 5, "the process dead")
    assert end_marked(node, grace=0.0, timeout=0.0)
    zombie.wait()


def test_a_former_guard_gets_the_time_to_do_its_own_work(node: UUID) -> None:
    brief = _marked(node, "sleep", "0.3")
    assert end_marked(node, grace=5.0)
    assert brief.wait(5) == 0, "ended by itself, not killed"


def test_what_cannot_be_ended_is_no_proof(node: UUID, monkeypatch: pytest.MonkeyPatch) -> None:
    process = _marked(node, "sleep", "600")
    until(lambda: find_marked(node) == [process.pid], 5, "the process found")
    with monkeypatch.context() as patch:
        patch.setattr("mutirao.agent.proctree.kill", lambda pid: None)
        assert not end_marked(node, grace=0.0, timeout=0.2)
    process.kill()
    process.wait()


def test_the_mark_in_the_limits_is_no_limit() -> None:
    centuries = limit_mark(uuid4().int) / 1e6 / 86400 / 36525
    assert centuries > 100
    assert limit_mark((1 << 128) - 1) < (1 << 63) - 1
    assert resource.RLIM_INFINITY in (-1, (1 << 64) - 1)
