from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mutirao.embedded.children import Child
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.ports import free_from, is_free, require_free
from mutirao.embedded.process import Process, spawn
from mutirao.embedded.signals import Signals, Stop
from mutirao.embedded.supervisor import Supervisor
from mutirao.errors import AlreadyRunning, MutiraoError


@pytest.fixture
def signals() -> Iterator[Signals]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    yield Signals()
    for number, handler in before.items():
        signal.signal(number, handler)


class Run:
    """A supervisor with what it said; every child is ended with the test."""

    def __init__(self, signals: Signals, folder: Path) -> None:
        self.said: list[str] = []
        self.changes = 0
        self.folder = folder
        self.supervisor = Supervisor(signals, say=self.said.append, changed=self._changed)
        self.children: list[Child] = []

    def child(self, script: str, *, restart: bool = True) -> Child:
        def launch() -> Process:
            return spawn(["sh", "-c", script], log=self.folder / "log", env={"PATH": os.defpath})

        self.children.append(Child("a child", launch, restart, self.folder / "log"))
        self.supervisor.start(self.children[-1:])
        return self.children[-1]

    def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, self.said
            self.supervisor.watch(0.05)

    def _changed(self) -> None:
        self.changes += 1


@pytest.fixture
def run(signals: Signals, tmp_path: Path) -> Iterator[Run]:
    run = Run(signals, tmp_path)
    yield run
    run.supervisor.stop(run.children, signal.SIGKILL, 1.0)


def test_a_killed_child_starts_again_and_the_change_is_told(run: Run) -> None:
    child = run.child("sleep 60")
    first, changes = child.pid, run.changes
    assert first is not None
    os.kill(first, signal.SIGKILL)
    run.until(lambda: child.pid not in (None, first))
    assert run.said == [f"a child (pid {first}) was killed by SIGKILL; starting it again in 0.2 s"]
    assert run.changes == changes + 2


def test_one_that_keeps_failing_waits_longer_each_time(run: Run) -> None:
    run.child("echo No room >&2; exit 3")
    run.until(lambda: len(run.said) == 3)
    assert "exited with 3 after saying: No room; starting it again" in run.said[0]
    assert [line.rpartition("again in ")[2] for line in run.said] == ["0.2 s", "0.4 s", "0.8 s"]


def test_a_hint_is_told_with_what_it_is_for(run: Run) -> None:
    run.child("echo began; echo 'mutirao: x is wrong'; echo '  hint: mend x'; exit 2")
    run.until(lambda: bool(run.said))
    assert "exited with 2 after saying: mutirao: x is wrong; hint: mend x; starting" in run.said[0]


@pytest.mark.parametrize(("script", "restart"), [("exit 0", True), ("exit 4", False)])
def test_one_that_is_done_or_may_not_restart_stays_down(run: Run, script: str, restart: bool) -> None:
    child = run.child(script, restart=restart)
    run.until(lambda: bool(run.said))
    assert run.said[0].endswith("not starting it again")
    assert (child.pid, child.due) == (None, None)


def test_one_that_cannot_be_started_is_tried_again_and_takes_no_other_along(run: Run) -> None:
    other, child = run.child("sleep 60"), run.child("sleep 60")
    started, pid = child.launch, other.pid

    def no_room() -> Process:
        child.launch = started
        raise OSError(errno.ENOSPC, "No space left on device")

    child.launch = no_room
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    run.until(lambda: len(run.said) == 2 and child.pid is not None)
    assert "a child cannot be started: [Errno 28] No space left on device; trying again" in run.said[1]
    assert other.pid == pid


def test_stop_ends_frozen_children_and_forgets_due_restarts(run: Run) -> None:
    frozen, failed = run.child("sleep 60"), run.child("exit 3")
    run.until(lambda: failed.due is not None)
    pid = frozen.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    run.supervisor.stop(run.children, signal.SIGTERM, 0.2)
    assert not Path(f"/proc/{pid}").exists()
    assert (failed.pid, failed.due, frozen.pid) == (None, None, None)


def test_a_signal_interrupts_a_wait_but_never_a_shielded_step(signals: Signals) -> None:
    done = []
    timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    with pytest.raises(Stop), signals.interrupting():
        with signals.shielded():
            timer.start()
            timer.join()
            done.append("whole")
        done.append("never")
    assert done == ["whole"]
    os.kill(os.getpid(), signal.SIGINT)
    assert signals.hurry


def test_a_second_holder_is_told_who_has_the_directory(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from mutirao.embedded.directory import ClusterDirectory\n"
        f"with ClusterDirectory(pathlib.Path({str(tmp_path)!r})).held(4711):\n"
        "    print('held', flush=True); input()"
    )
    holder = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    directory = ClusterDirectory(tmp_path)
    try:
        with pytest.raises(AlreadyRunning) as caught, directory.held(1):
            pass
        assert all(part in caught.value.message for part in (f"pid {holder.pid}", str(tmp_path), ":4711"))
    finally:
        holder.kill()
        holder.communicate()
    with directory.held(1):
        pass


@pytest.mark.parametrize(
    "left", [(), ("logs", "nodes"), ("secrets.json", "postgres.new", "lost+found", ".cluster-id.7")]
)
def test_a_directory_that_an_aborted_start_left_is_taken(tmp_path: Path, left: tuple[str, ...]) -> None:
    for name in left:
        (tmp_path / name).mkdir()
    ClusterDirectory(tmp_path)


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.odt").touch()
    with pytest.raises(MutiraoError, match="not a cluster's data directory: it holds thesis") as caught:
        ClusterDirectory(tmp_path)
    assert "--data" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.odt"]


def test_a_copied_directory_has_another_mark(tmp_path: Path) -> None:
    one = ClusterDirectory(tmp_path / "one")
    mark = one.mark
    assert mark == ClusterDirectory(tmp_path / "one").mark
    two = ClusterDirectory(tmp_path / "two")
    (two.path / "cluster-id").write_bytes((one.path / "cluster-id").read_bytes())
    assert two.mark != mark


def test_what_it_says_of_itself_is_private_and_replaced_whole(tmp_path: Path) -> None:
    directory = ClusterDirectory(tmp_path / "data")
    directory.describe({"pid": 1})
    path = directory.path / "up.json"
    before = path.stat().st_ino
    directory.describe({"pid": 2})
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_ino != before
    assert [entry.name for entry in directory.path.glob(".up.json*")] == []


def test_a_taken_port_is_named_with_its_holder() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free(port)
        assert port not in (next(free_from(port)),)
        with pytest.raises(AlreadyRunning, match=rf"port {port} .* taken by pid {os.getpid()}"):
            require_free([port])
