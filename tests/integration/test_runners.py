"""Runners with real processes: ends, errors, timeouts, kills, withdrawals, crashes."""

from __future__ import annotations

import json
import os
import random
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mutirao.agent.runners import Runners, Task
from mutirao.domain.job import Outcome
from mutirao.loop import boottime
from mutirao.registry import HandlerConfig
from tests.support.processes import alive
from tests.support.running import end_of, ends, error_of, pids_in, runners, started, submit, task
from tests.support.waiting import until


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    """Two runners for all tests that leave them in order."""
    with runners(tmp_path_factory.mktemp("runners")) as made:
        yield made


def _descriptors() -> int:
    return psutil.Process().num_fds()


def _group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return 0


# -- ends


def test_a_result_comes_back_as_json_to_the_digit(shared: Runners) -> None:
    wanted = Task(task("echo").job_id, 4, "echo", b'{"message":[9007199254740993,"\xc3\xa9\\u0041"]}', 5.0)
    before = boottime()
    finished = end_of(shared, wanted)
    assert finished.outcome is Outcome.SUCCEEDED
    assert finished.result == '{"message":[9007199254740993,"éA"]}'.encode()
    assert (finished.attempt, finished.error, finished.discard) == (4, None, False)
    assert before < finished.started < boottime()
    assert finished.seconds > 0


@pytest.mark.parametrize("size", [64 * 1024 - 11, 64 * 1024, 1 << 20])
def test_payloads_of_any_size_arrive_whole(shared: Runners, size: int) -> None:
    for _ in range(3):
        finished = end_of(shared, task("measure", {"text": "x" * size}))
        assert json.loads(finished.result or b"")["length"] == size


def test_large_payloads_leak_no_descriptors(shared: Runners) -> None:
    def descriptors() -> int:
        finished = end_of(shared, task("measure", {"text": "x" * 100_000}))
        return int(json.loads(finished.result or b"")["descriptors"])

    first, own = {descriptors() for _ in range(6)}, _descriptors()
    assert {descriptors() for _ in range(30)} <= first
    assert _descriptors() == own


def test_a_payload_that_does_not_fit_is_refused_by_its_field(shared: Runners) -> None:
    finished = end_of(shared, task("sleep", {"seconds": "1"}))
    assert finished.outcome is Outcome.REFUSED
    assert error_of(finished)["field"] == "seconds"


def test_the_context_knows_the_attempt(shared: Runners) -> None:
    first, third = task("fail", {"times": 2}), task("fail", {"times": 2}, attempt=3)
    submit(shared, first, third)
    found = ends(shared, 2)
    assert found[first.job_id].outcome is Outcome.FAILED
    assert error_of(found[first.job_id])["type"] == "AskedToFail"
    assert "Traceback" in error_of(found[first.job_id])["traceback"]
    assert found[third.job_id].result == b'{"attempt":3}'


@pytest.mark.parametrize(
    ("what", "kind", "retry_after", "discard"),
    [
        ("retry", "Retry", 7.5, False),
        ("discard", "Discard", None, True),
        ("exit", "SystemExit", None, False),
        ("nul", "RuntimeError", None, False),
        ("broken", "Broken", None, False),
        ("recursion", "RecursionError", None, False),
        ("validation", "ValidationError", None, False),
    ],
)
def test_whatever_a_handler_raises_is_a_failure_that_can_be_stored(
    shared: Runners, what: str, kind: str, retry_after: float | None, discard: bool
) -> None:
    finished = end_of(shared, task("raise", {"what": what}))
    assert finished.outcome is Outcome.FAILED
    assert (finished.retry_after, finished.discard) == (retry_after, discard)
    assert error_of(finished)["type"] == kind
    assert finished.error is not None
    assert b"\\u0000" not in finished.error
    assert len(finished.error) < 60_000
    finished.error.decode()


@pytest.mark.parametrize("expression", ["'\\0'", "{'\\0': 1}", "'\\ud800'", "'x' * (1 << 20)", "object()"])
def test_a_result_that_cannot_be_stored_costs_all_retries(shared: Runners, expression: str) -> None:
    finished = end_of(shared, task("give", {"python": expression}))
    assert (finished.outcome, finished.discard) == (Outcome.FAILED, True)
    assert error_of(finished)["type"] == "ResultRefused"


def test_a_result_of_another_type_than_declared_is_a_failure(shared: Runners) -> None:
    finished = end_of(shared, task("give_number", {"python": "wrong"}))
    assert (finished.outcome, error_of(finished)["type"]) == (Outcome.FAILED, "ResultRefused")


def test_an_unknown_handler_is_a_failure_that_another_node_may_retry(shared: Runners) -> None:
    finished = end_of(shared, task("nobody"))
    assert (finished.outcome, finished.discard) == (Outcome.FAILED, False)
    assert "nobody" in error_of(finished)["message"]


# -- crashes and leftovers


@pytest.mark.parametrize(
    ("how", "words"), [("exit", "status 3"), ("kill", "SIGKILL"), ("segfault", "SIGSEGV")]
)
def test_a_handler_that_kills_its_runner_is_reported_and_the_runner_replaced(
    shared: Runners, how: str, words: str
) -> None:
    for _ in range(3):
        finished = end_of(shared, task("crash", {"how": how}))
        assert finished.outcome is Outcome.RUNNER_DIED
        assert words in error_of(finished)["message"]
    until(lambda: shared.poll(0.05) or shared.idle == 2, 10, "both runners ready again")


def test_respawning_leaks_no_descriptors(tmp_path: Path) -> None:
    with runners(tmp_path, count=1) as made:
        end_of(made, task("crash", {"how": "exit"}))
        end_of(made, task("echo", {"message": 1}))
        guard = psutil.Process(made.guard_pid)
        own, theirs = _descriptors(), guard.num_fds()
        for _ in range(8):
            end_of(made, task("crash", {"how": "exit"}))
        end_of(made, task("echo", {"message": 1}))
        assert (_descriptors(), guard.num_fds()) == (own, theirs)


def test_what_a_handler_leaves_running_is_gone_before_its_result_is_reported(shared: Runners) -> None:
    finished = end_of(shared, task("leave", {"what": "child"}))
    runner, child = json.loads(finished.result or b"")
    assert not psutil.pid_exists(child)
    assert alive(runner)


def test_hidden_leftovers_too(shared: Runners, tmp_path: Path) -> None:
    finished = end_of(shared, task("spawn_setsid", {"pids": str(tmp_path / "pids"), "then": "return"}))
    runner, *children = json.loads(finished.result or b"")
    assert [pid for pid in children if psutil.pid_exists(pid)] == []
    assert alive(runner)


@pytest.mark.parametrize("then", ["exit", "kill"])
def test_and_when_the_runner_dies_of_its_handler(shared: Runners, tmp_path: Path, then: str) -> None:
    finished = end_of(shared, task("spawn_setsid", {"pids": str(tmp_path / "pids"), "then": then}))
    assert finished.outcome is Outcome.RUNNER_DIED
    assert [pid for pid in pids_in(tmp_path / "pids") if psutil.pid_exists(pid)] == []


def test_a_thread_left_behind_ends_with_its_runner_before_the_result_is_reported(shared: Runners) -> None:
    finished = end_of(shared, task("leave", {"what": "thread"}))
    assert finished.outcome is Outcome.SUCCEEDED
    assert not psutil.pid_exists(json.loads(finished.result or b"")[0])


def test_a_daemon_thread_does_not_cost_the_runner(shared: Runners) -> None:
    finished = end_of(shared, task("leave", {"what": "daemon_thread"}))
    assert alive(json.loads(finished.result or b"")[0])


@pytest.mark.parametrize("what", ["chain", "chain_in_group"])
def test_a_process_that_flees_from_child_to_child_is_caught(shared: Runners, what: str) -> None:
    finished = end_of(shared, task("leave", {"what": what}))
    _, group = json.loads(finished.result or b"")
    fleeing = [pid for pid in psutil.pids() if _group_of(pid) == group]
    assert [pid for pid in fleeing if pid != group] == []


def test_a_forked_child_that_returns_is_no_second_runner(shared: Runners) -> None:
    finished = end_of(shared, task("leave", {"what": "forked_return"}))
    runner, child = json.loads(finished.result or b"")
    assert child != 0
    assert not psutil.pid_exists(child)
    assert alive(runner)


# -- timeouts, kills, withdrawals


def test_a_timeout_kills_the_runner_and_all_its_hidden_children(shared: Runners, tmp_path: Path) -> None:
    wanted = task("spawn_setsid", {"pids": str(tmp_path / "pids")}, timeout=0.7)
    finished = end_of(shared, wanted)
    assert finished.outcome is Outcome.TIMED_OUT
    assert 0.7 <= finished.seconds < 3
    assert [pid for pid in pids_in(tmp_path / "pids") if psutil.pid_exists(pid)] == []


def test_a_timeout_ends_a_handler_that_holds_the_interpreter_lock(shared: Runners, tmp_path: Path) -> None:
    finished = end_of(shared, task("hold_gil", {"pids": str(tmp_path / "pids")}, timeout=0.7))
    assert finished.outcome is Outcome.TIMED_OUT
    assert not psutil.pid_exists(pids_in(tmp_path / "pids")[0])


def test_a_cancel_kills_the_runner_and_all_its_hidden_children(shared: Runners, tmp_path: Path) -> None:
    wanted = task("spawn_setsid", {"pids": str(tmp_path / "pids")})
    submit(shared, wanted)
    pids = pids_in(tmp_path / "pids")
    assert shared.kill(wanted.job_id, 1, Outcome.CANCELLED)
    finished = ends(shared, 1)[wanted.job_id]
    assert finished.outcome is Outcome.CANCELLED
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []
    assert not shared.kill(wanted.job_id, 1, Outcome.CANCELLED)


def test_a_stuck_task_does_not_hold_up_others_and_queued_ones_can_be_taken_back(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        stuck = task("sleep", {"seconds": 600})
        submit(made, stuck)
        started(made, stuck)
        submit(made, *[task("echo", {"message": n}) for n in range(50)])
        ends(made, 50)
        second = task("sleep", {"seconds": 600})
        submit(made, second)
        started(made, second)
        waiting = [task("echo", {"message": "x" * (n * 50_000)}) for n in range(4)]
        submit(made, *waiting)
        assert (made.pending, made.outstanding, made.idle) == (4, 6, 0)
        assert set(made.running()) == {(item.job_id, 1) for item in [stuck, second, *waiting]}
        assert made.kill(waiting[1].job_id, 1, Outcome.CANCELLED)
        finished = ends(made, 1)[waiting[1].job_id]
        assert (finished.outcome, finished.started) == (Outcome.CANCELLED, 0.0)
        assert made.withdraw() == [waiting[0], *waiting[2:]]
        assert set(made.running()) == {(item.job_id, 1) for item in (stuck, second)}
        assert made.kill(stuck.job_id, 1, Outcome.INTERRUPTED)
        assert ends(made, 1)[stuck.job_id].outcome is Outcome.INTERRUPTED
        assert end_of(made, waiting[0]).outcome is Outcome.SUCCEEDED


def test_kills_at_random_moments_hit_no_task_but_the_named(tmp_path: Path) -> None:
    dice = random.Random(7)
    with runners(tmp_path) as made:
        tasks = [task("sleep", {"seconds": dice.choice([0, 0, 0.001, 0.005])}) for _ in range(200)]
        submit(made, *tasks)
        named, found = set(), {}

        def all_ended() -> bool:
            victim = dice.choice(tasks)
            if made.kill(victim.job_id, 1, Outcome.CANCELLED):
                named.add(victim.job_id)
            for finished in made.poll(dice.choice([0.0, 0.001, 0.01])):
                assert finished.job_id not in found
                found[finished.job_id] = finished.outcome
            return len(found) == len(tasks)

        until(all_ended, 60, "all tasks ended", every=0.0)
        assert {job for job, outcome in found.items() if outcome is not Outcome.SUCCEEDED} <= named
        assert set(found.values()) == {Outcome.SUCCEEDED, Outcome.CANCELLED}


def test_a_task_taken_by_a_runner_that_dies_before_saying_so_is_queued_again(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        until(lambda: made.poll(0.05) or made.idle == 2, 10, "both runners ready")
        victims = psutil.Process(made.guard_pid).children()
        # Stopped inside its wait for a task, a runner may have taken one once continued; it never says so.
        for victim in victims:
            victim.suspend()
        tasks = [task("echo", {"message": n}) for n in range(20)]
        submit(made, *tasks)
        # Taken in its stead, exactly as by a runner that is killed between the take and the word.
        stolen = made._queue._inbox.take()
        assert stolen
        made._queue._inbox.drop()
        for victim in victims:
            victim.kill()
        found = ends(made, 20)
        assert {finished.outcome for finished in found.values()} == {Outcome.SUCCEEDED}


def test_the_queue_refuses_what_it_has_no_room_for_and_loses_nothing(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        until(lambda: made.poll(0.05) or made.idle == 2, 10, "both runners ready")
        for runner in psutil.Process(made.guard_pid).children():
            runner.suspend()
        tasks = [task("echo", {"message": "x" * 1000}) for _ in range(50_000)]
        taken = made.submit(tasks)
        assert 100 < taken < 50_000
        for runner in psutil.Process(made.guard_pid).children():
            runner.resume()
        assert set(ends(made, taken, 60)) == {item.job_id for item in tasks[:taken]}


def test_wake_ends_a_poll_from_another_thread(shared: Runners) -> None:
    threading.Timer(0.1, shared.wake).start()
    before = boottime()
    assert shared.poll(60.0) == []
    assert boottime() - before < 30


def test_a_module_that_does_not_load_is_tried_again_at_growing_pauses(tmp_path: Path) -> None:
    module = tmp_path / "broken.py"
    module.write_text("raise RuntimeError('not today')")
    made = Runners(task("echo").job_id, 1, HandlerConfig(modules=(str(module),)), tmp_path)
    made.start()
    made.extend(boottime() + 60)
    try:
        wanted = task("echo", {"message": 1})
        submit(made, wanted)
        assert made.poll(1.0) == []
        module.write_text("")
        assert ends(made, 1)[wanted.job_id].outcome is Outcome.SUCCEEDED
    finally:
        made.close()


def test_close_ends_everything_and_asking_afterwards_does_no_harm(tmp_path: Path) -> None:
    with runners(tmp_path) as made:
        wanted = task("spawn_setsid", {"pids": str(tmp_path / "pids")})
        submit(made, wanted)
        pids = [made.guard_pid, *pids_in(tmp_path / "pids")]
        made.close()
        assert [pid for pid in pids if alive(pid)] == []
        made.close()
        made.wake()
        made.extend(boottime() + 60)
        assert (made.alive, made.fenced, made.submit([wanted]), made.poll(0.0)) == (False, True, 0, [])
        assert made.last_words() == []


def test_runners_carry_no_settings_of_ours_and_know_their_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUTIRAO_POSTGRES", "postgresql://secret")
    with runners(tmp_path) as made:
        until(lambda: made.poll(0.05) or made.idle == 2, 10, "both runners ready")
        guard = psutil.Process(made.guard_pid)
        for process in [guard, *guard.children()]:
            names = {name for name in process.environ() if name.startswith("MUTIRAO_")}
            assert names == {"MUTIRAO_RUN"}


def test_runners_import_no_driver_and_stay_small(shared: Runners) -> None:
    loaded = "[n for n in __import__('sys').modules if n in ('psycopg', 'redis', 'flask', 'structlog')]"
    finished = end_of(shared, task("give", {"python": loaded}))
    assert finished.result == b"[]"
    guard = psutil.Process(shared.guard_pid)
    assert guard.memory_info().rss < 25 << 20


def test_signals_meant_for_a_group_do_not_end_guard_or_runners(shared: Runners) -> None:
    guard = psutil.Process(shared.guard_pid)
    wanted = task("sleep", {"seconds": 0.3})
    submit(shared, wanted)
    started(shared, wanted)
    for process in [guard, *guard.children()]:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process.send_signal(number)
    assert ends(shared, 1)[wanted.job_id].outcome is Outcome.SUCCEEDED
    assert shared.alive
