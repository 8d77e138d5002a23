"""The guard: parent of all runners, which never outlive the lease, the agent or the guard itself.

A process of its own, standard library only, one thread. `python -m mutirao.agent.guard NODE CONTROL SHARED`.
Orders, one datagram each: `spawn R` (with its four descriptors), `kill R SEQUENCE`, `rearm FENCE`.
Reports: `exited R STATUS SEQUENCE` once the runner and all it left behind are dead and reaped,
`kept R SEQUENCE` for a kill that named another task than the runner holds, `fenced FENCE` once nothing lives.
"""

from __future__ import annotations

import array
import os
import select
import signal
import socket
import sys
from collections import deque
from contextlib import suppress
from uuid import UUID

from mutirao.agent import proctree
from mutirao.agent.shared import Shared, boottime_ns
from mutirao.agent.spawning import spawn

_TICK = 0.1
_BUSY_TICK = 0.005
_SECOND = 1_000_000_000


class _Runner:
    __slots__ = ("index", "named", "pid")

    def __init__(self, index: int, pid: int) -> None:
        self.index = index
        self.pid = pid
        self.named: int | None = None  # the task a kill names, while the runner is being stopped


class Guard:
    """Obeys the agent, and kills everything when the deadline passes or the agent is gone."""

    def __init__(self, control: socket.socket, shared: Shared, wakeup: int) -> None:
        self._control = control
        self._shared = shared
        self._wakeup = wakeup
        self._runners: dict[int, _Runner] = {}  # by process
        self._dead: list[tuple[int, int, int]] = []  # index, status, sequence: not reported yet
        self._reports: deque[str] = deque()
        self._agent_gone = False
        self._fenced = False

    def run(self) -> None:
        """Until the agent is gone; then everything is dead and reaped."""
        while not self._agent_gone:
            self._wait()
            self._obey()
            if self._expired():
                self._fence()
            else:
                self._reap()
                self._carry_out_kills()
                self._settle_deaths()
            self._report()
        self._end_all()

    def _wait(self) -> None:
        busy = self._dead or any(runner.named is not None for runner in self._runners.values())
        delay = _BUSY_TICK if busy else _TICK
        if not self._fenced and self._shared.deadline:
            delay = max(0.0, min(delay, (self._shared.deadline - boottime_ns()) / _SECOND))
        writing = [self._control] if self._reports else []
        reading: list[socket.socket | int] = [self._control, self._wakeup]
        ready, _, _ = select.select(reading, writing, [], delay)
        if self._wakeup in ready:
            with suppress(BlockingIOError):
                os.read(self._wakeup, 4096)

    def _expired(self) -> bool:
        return not self._fenced and 0 < self._shared.deadline <= boottime_ns()

    def _fence(self) -> None:
        self._fenced = True
        # The agent must see the fence before the first runner dies of it.
        self._shared.fences += 1
        self._end_all()
        self._reports.append(f"fenced {self._shared.fences}")

    def _obey(self) -> None:
        while True:
            try:
                text, descriptors = _receive(self._control)
            except BlockingIOError:
                return
            except ConnectionError:
                text, descriptors = b"", []
            if not text:
                self._agent_gone = True
                return
            order, *numbers = text.decode().split()
            try:
                self._carry_out(order, [int(number) for number in numbers], descriptors)
            finally:
                for descriptor in descriptors:
                    os.close(descriptor)

    def _carry_out(self, order: str, numbers: list[int], descriptors: list[int]) -> None:
        if order == "rearm" and numbers[0] == self._shared.fences:
            self._fenced = False
        elif order == "spawn" and not self._fenced and not self._expired():
            self._spawn(numbers[0], descriptors)
        elif order == "kill":
            for runner in self._runners.values():
                if runner.index == numbers[0] and runner.named is None:
                    runner.named = numbers[1]
                    proctree.kill(runner.pid, signal.SIGSTOP)

    def _spawn(self, index: int, descriptors: list[int]) -> None:
        try:
            pid = spawn(index, descriptors)
        except OSError as error:
            self._reports.append(f"exited {index} {error.errno} 0")
        else:
            self._runners[pid] = _Runner(index, pid)

    def _carry_out_kills(self) -> None:
        """Kills a runner only while it stands still and holds the named task: its next one is never hit."""
        for runner in self._runners.values():
            if runner.named is None or not _has_stopped(runner.pid):
                continue
            holds, _ = self._shared.slot(runner.index)
            if holds == runner.named:
                proctree.kill(runner.pid)
            else:
                self._reports.append(f"kept {runner.index} {runner.named}")
                proctree.kill(runner.pid, signal.SIGCONT)
            runner.named = None

    def _reap(self) -> bool:
        """Collects every dead child; False when there is no child left at all."""
        with suppress(ChildProcessError):
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if ended is None:
                    return True
                runner = self._runners.pop(ended.si_pid, None)
                if runner is not None:
                    status = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
                    self._dead.append((runner.index, status, self._shared.slot(runner.index)[0]))
                    # Before it is reaped: until then its number cannot be another group's.
                    proctree.kill_group(runner.pid)
                os.waitid(os.P_PID, ended.si_pid, os.WEXITED)
        return False

    def _settle_deaths(self) -> None:
        """Reports dead runners once no orphan is left: whatever they left has become a child of the guard."""
        if self._dead and not self._kill_children(set(self._runners)):
            self._reports.extend(f"exited {index} {status} {held}" for index, status, held in self._dead)
            self._dead.clear()

    def _kill_children(self, spared: set[int]) -> int:
        """Kills all children but the spared ones, and says how many there were."""
        strangers = [child for child in proctree.children_of(os.getpid()) if child[0] not in spared]
        for pid, group in strangers:
            if group != os.getpgrp() and group not in spared:
                proctree.kill_group(group)
            proctree.kill(pid)
        return len(strangers)

    def _end_all(self) -> None:
        for pid in self._runners:
            proctree.kill_group(pid)
            proctree.kill(pid)
        while self._reap():
            self._kill_children(set())
            select.select([self._wakeup], [], [], _BUSY_TICK)
        self._dead.clear()

    def _report(self) -> None:
        with suppress(BlockingIOError):
            while self._reports:
                try:
                    self._control.send(self._reports[0].encode(), socket.MSG_DONTWAIT)
                except ConnectionError:
                    self._agent_gone = True
                    return
                self._reports.popleft()


def _receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """The next order, without waiting (socket.recv_fds takes flags, and ignores them)."""
    text, extra, _, _ = control.recvmsg(
        256, socket.CMSG_SPACE(8 * 4), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
    )
    descriptors = array.array("i")
    for _level, _kind, data in extra:
        descriptors.frombytes(data)
    return text, list(descriptors)


def _has_stopped(pid: int) -> bool:
    with suppress(ChildProcessError):
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG) is not None
    return False


def _heed_signals() -> int:
    """Survives what a terminal or service manager sends, and wakes for SIGCHLD; returns what to select on."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    # A function, not SIG_IGN: that would be passed on to every program a handler starts.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    return reading


def main() -> None:
    """Guards until the agent's end of the control socket closes."""
    node, control, shared = UUID(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    wakeup = _heed_signals()
    os.set_inheritable(control, False)
    os.set_inheritable(shared, False)
    proctree.become_subreaper()
    proctree.mark_by_limit(node.int)
    Guard(socket.socket(fileno=control), Shared(shared), wakeup).run()


if __name__ == "__main__":
    main()
