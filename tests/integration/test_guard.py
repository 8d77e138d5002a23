"""The guard with real processes: nothing outlives the lease, the agent or the guard (I2, DESIGN §5)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest

from mutirao.agent.proof import end_marked, find_marked
from mutirao.agent.runners import Runners
from mutirao.domain.job import Outcome
from mutirao.loop import boottime
from tests.support.processes import Watch, alive, send
from tests.support.running import HANDLERS, end_of, ends, pids_in, runners, started, submit, task
from tests.support.waiting import until

LEASE = 3.0
SLACK = 3.0  # for a busy machine; the guard itself needs a few milliseconds


def _until_fenced(made: Runners) -> None:
    until(lambda: made.poll(0.05) or made.fenced, LEASE + SLACK, "the fence", every=0.0)


def test_at_the_deadline_hidden_children_and_a_held_interpreter_lock_die(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        submit(
            made,
            task("spawn_setsid", {"pids": str(tmp_path / "family")}),
            task("hold_gil", {"pids": str(tmp_path / "holder")}),
        )
        pids = pids_in(tmp_path / "family") + pids_in(tmp_path / "holder")
        watch, deadline = Watch(pids), boottime() + 0.5
        made.extend(deadline)
        assert 0 <= watch.last_death(0.5 + SLACK) - deadline < SLACK
        _until_fenced(made)
        assert made.alive


def test_a_thread_in_the_process_could_not_do_that(tmp_path: Path) -> None:
    program = """
import ctypes, os, threading, time
def watchdog():
    time.sleep(0.1)
    os._exit(7)
threading.Thread(target=watchdog, daemon=True).start()
ctypes.PyDLL(None).sleep(2)
"""
    before = boottime()
    status = subprocess.run([sys.executable, "-c", program], check=False).returncode
    assert status == 7
    assert boottime() - before >= 1.9, "the thread ran while the interpreter lock was held"


def test_a_fence_ends_all_and_after_rearming_all_works(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        running = task("sleep", {"seconds": 600})
        queued = [task("record", {"file": str(tmp_path / "record")}) for _ in range(5)]
        submit(made, running, task("sleep", {"seconds": 600}), *queued)
        started(made, running)
        old = psutil.Process(made.guard_pid).children()
        made.extend(boottime() + 0.2)
        _until_fenced(made)
        made.extend(boottime() + 600)
        assert made.fenced, "no extension undoes a fence"
        assert made.submit([task("echo", {"message": 2})]) == 0
        assert made.poll(0.0) == []
        made.rearm(boottime() + 60)
        assert not [runner for runner in old if runner.is_running() and alive(runner.pid)]
        assert (made.fenced, made.outstanding, made.running()) == (False, 0, {})
        fresh = task("echo", {"message": 3})
        # Only the new one ends: what was queued before the fence is forgotten.
        assert end_of(made, fresh).outcome is Outcome.SUCCEEDED
        assert made.poll(0.3) == []
        assert not (tmp_path / "record").exists()


def test_a_deadline_that_has_passed_cannot_be_moved(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        guard = psutil.Process(made.guard_pid)
        guard.suspend()
        made.fence()
        made.extend(boottime() + 600)
        guard.resume()
        until(lambda: made.fenced, 5, "the fence")


def test_a_guard_that_hangs_past_the_deadline_is_ended_and_all_with_it(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        submit(made, task("spawn_setsid", {"pids": str(tmp_path / "pids")}))
        pids = [made.guard_pid, *pids_in(tmp_path / "pids")]
        send(made.guard_pid, signal.SIGSTOP)
        made.extend(boottime() + 0.2)
        until(lambda: made.poll(0.05) or not made.alive, 10, "the guard ended", every=0.0)
        assert [pid for pid in pids if alive(pid)] == []


def test_rearming_without_a_fence_ends_all_first(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        submit(made, task("spawn_setsid", {"pids": str(tmp_path / "pids")}))
        pids = pids_in(tmp_path / "pids")
        made.rearm(boottime() + 60)
        assert [pid for pid in pids if alive(pid)] == []
        assert end_of(made, task("echo", {"message": 1})).outcome is Outcome.SUCCEEDED


def test_nothing_is_taken_before_there_is_a_lease(tmp_path: Path) -> None:
    with runners(tmp_path, lease=None) as made:
        assert made.submit([task("echo", {"message": 1})]) == 0
        made.extend(boottime() + 60)
        assert end_of(made, task("echo", {"message": 1})).outcome is Outcome.SUCCEEDED


def test_without_its_guard_nothing_lives_and_the_agent_knows(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        submit(
            made,
            task("spawn_setsid", {"pids": str(tmp_path / "family")}),
            task("hold_gil", {"pids": str(tmp_path / "holder")}),
        )
        pids = pids_in(tmp_path / "family") + pids_in(tmp_path / "holder")
        send(made.guard_pid, signal.SIGKILL)
        until(lambda: made.poll(0.05) or not made.alive, 10, "the agent knows", every=0.0)
        made.poll(0.0)
        assert [pid for pid in pids if alive(pid)] == []
        assert made.fenced
        assert made.submit([task("echo", {"message": 1})]) == 0
        assert find_marked(made._node_id) == []


def test_a_kill_does_not_hit_the_successor_of_the_task_it_names(tmp_path: Path) -> None:
    with runners(tmp_path, count=1) as made:
        first = task("sleep", {"seconds": 600})
        submit(made, first)
        started(made, first)
        assert made._guard is not None
        made._guard.link.kill(0, 999)
        made._guard.link.kill(0, 0)
        assert made.poll(0.5) == []
        assert set(made.running()) == {(first.job_id, 1)}
        assert made.kill(first.job_id, 1, Outcome.CANCELLED)
        assert ends(made, 1)[first.job_id].outcome is Outcome.CANCELLED


def test_a_kill_that_comes_after_the_end_hits_nobody(tmp_path: Path) -> None:
    with runners(tmp_path, count=1) as made:
        end_of(made, task("echo", {"message": 1}))
        until(lambda: made._shared.slot(0) == (0, 0), 5, "the runner says that it holds nothing")
        runner = psutil.Process(made.guard_pid).children()[0]
        assert made._guard is not None
        made._guard.link.kill(0, 1)
        assert made.poll(0.5) == []
        assert runner.is_running()
        assert end_of(made, task("echo", {"message": 1})).outcome is Outcome.SUCCEEDED


class Agent:
    """A bare agent as a process of its own, and what it says."""

    def __init__(self, process: subprocess.Popen[str], output: Path) -> None:
        self.pid = process.pid
        self.process = process
        self._output = output

    def said(self, event: str) -> list[dict[str, Any]]:
        """Everything of that kind said so far."""
        lines = self._output.read_text().splitlines()
        return [said for line in lines if (said := json.loads(line))["event"] == event]


@contextmanager
def _agent(tmp_path: Path, lease: float) -> Iterator[tuple[Agent, list[int]]]:
    """An agent with one family of hidden children and one holder of the interpreter lock."""
    node, output = uuid4(), tmp_path / "said"
    order = {
        "node": str(node),
        "modules": [HANDLERS],
        "lease": lease,
        "directory": str(tmp_path),
        "tasks": [
            ["spawn_setsid", {"pids": str(tmp_path / "family")}],
            ["hold_gil", {"pids": str(tmp_path / "holder")}],
        ],
    }
    root = str(Path(__file__).parents[2])
    with output.open("w") as stdout:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.bare_agent", json.dumps(order)],
            stdout=stdout,
            text=True,
            cwd=root,
        )
    try:
        agent = Agent(process, output)
        pids = pids_in(tmp_path / "family") + pids_in(tmp_path / "holder")
        yield agent, [agent.said("started")[0]["guard"], *pids]
    finally:
        process.kill()
        process.wait()
        assert end_marked(node, grace=5.0)


def test_when_the_agent_is_killed_everything_dies(tmp_path: Path) -> None:
    with _agent(tmp_path, lease=30.0) as (agent, pids):
        killed = boottime()
        send(agent.pid, signal.SIGKILL)
        assert Watch(pids).last_death(5.0) - killed < SLACK


def test_when_the_agent_is_frozen_everything_but_the_guard_dies_at_the_deadline(tmp_path: Path) -> None:
    with _agent(tmp_path, lease=LEASE) as (agent, (guard, *pids)):
        frozen = boottime()
        send(agent.pid, signal.SIGSTOP)
        # The last extension lies up to a fifth of a lease back.
        assert LEASE * 0.5 < Watch(pids).last_death(LEASE + SLACK) - frozen < LEASE + SLACK
        assert alive(guard)
        assert agent.said("fenced") == []
        send(agent.pid, signal.SIGCONT)
        until(lambda: agent.said("finished"), 10, "the agent at work again")
        assert agent.said("finished") == [{"event": "finished", "outcome": "succeeded"}]
        assert len(agent.said("fenced")) == 1


def test_when_the_guard_dies_and_the_agent_cannot_act_the_runners_die_all_the_same(tmp_path: Path) -> None:
    with _agent(tmp_path, lease=30.0) as (agent, (guard, *_)):
        runners_of_guard = [child.pid for child in psutil.Process(guard).children()]
        send(agent.pid, signal.SIGSTOP)
        send(guard, signal.SIGKILL)
        Watch(runners_of_guard).last_death(SLACK)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_when_the_guard_dies_the_agent_ends(tmp_path: Path, number: signal.Signals) -> None:
    with _agent(tmp_path, lease=30.0) as (agent, (guard, *pids)):
        send(guard, number)
        assert agent.process.wait(15) == 4
        assert [pid for pid in pids if alive(pid)] == []
