"""What a running handler may ask and tell: its cancel, its progress, what was never asked before."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao.agent.runner_line import AttemptLink, Line
from mutirao.agent.runners import Asked, Finished, Runners, Task
from mutirao.agent.shared import Shared
from mutirao.context import ContextLost
from mutirao.domain.job import Outcome
from mutirao.loop import boottime
from mutirao.registry import HandlerConfig
from tests.support.running import end_of, ends, error_of, runners, started, submit, task
from tests.support.waiting import until

TALKING = str(Path(__file__).parents[1] / "talking_handlers.py")
WAIT_FOR_CANCEL = "while not context.cancelled: time.sleep(0.01)\n"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    with runners(tmp_path_factory.mktemp("runners"), 1, config=HandlerConfig(modules=(TALKING,))) as made:
        yield made


def do(python: str, handler: str = "do", timeout: float = 60.0) -> Task:
    return task(handler, {"python": python}, timeout=timeout)


def result(finished: Finished) -> object:
    assert finished.outcome is Outcome.SUCCEEDED, finished.error
    return json.loads(finished.result or b"null")


def asked(runners: Runners, count: int = 1) -> list[Asked]:
    """So many questions, as they come."""
    found: list[Asked] = []

    def enough() -> bool:
        assert not runners.poll(0.01)
        found.extend(runners.asked())
        return len(found) >= count

    until(enough, 10, f"{count} questions", every=0.0)
    return found


# -- cancelled


def test_a_cancel_is_seen_and_the_handler_may_end_by_itself(one: Runners) -> None:
    wanted = do(WAIT_FOR_CANCEL + "print('tidied up'); result = 7", "do_with_grace")
    submit(one, wanted)
    started(one, wanted)
    assert one.kill(wanted.job_id, 1, Outcome.CANCELLED)
    finished = ends(one, 1)[wanted.job_id]
    assert (finished.outcome, finished.result) == (Outcome.CANCELLED, b"7")
    assert finished.output is not None
    assert finished.output.kept == b"tidied up\n"
    assert result(end_of(one, do("result = context.cancelled", "do_with_grace"))) is False


def test_a_handler_that_fails_after_a_cancel_has_still_been_cancelled(one: Runners) -> None:
    wanted = do(WAIT_FOR_CANCEL + "raise RuntimeError('stopped')", "do_with_grace")
    submit(one, wanted)
    started(one, wanted)
    one.kill(wanted.job_id, 1, Outcome.CANCELLED)
    finished = ends(one, 1)[wanted.job_id]
    assert (finished.outcome, error_of(finished)["message"]) == (Outcome.CANCELLED, "stopped")


def test_after_its_grace_it_is_killed_however_often_the_cancel_was_said(one: Runners) -> None:
    wanted = do("print(context.cancelled); time.sleep(600)", "do_with_short_grace")
    submit(one, wanted)
    started(one, wanted)
    before = boottime()

    def ended() -> list[Finished]:
        one.kill(wanted.job_id, 1, Outcome.CANCELLED)
        return one.poll(0.05)

    (finished,) = until(ended, 10, "the attempt ended", every=0.0)
    assert finished.outcome is Outcome.CANCELLED
    assert boottime() - before >= 0.5


@pytest.mark.parametrize(
    ("handler", "outcome"),
    [
        pytest.param("do", Outcome.CANCELLED, id="no grace asked for"),
        pytest.param("do_with_grace", Outcome.INTERRUPTED, id="not a cancel"),
    ],
)
def test_without_a_grace_it_is_killed_at_once(one: Runners, handler: str, outcome: Outcome) -> None:
    wanted = do("time.sleep(600)", handler)
    submit(one, wanted)
    started(one, wanted)
    one.kill(wanted.job_id, 1, outcome)
    assert ends(one, 1, 10)[wanted.job_id].outcome is outcome


def test_a_grace_ends_with_the_timeout_or_with_what_forbids_to_go_on(one: Runners) -> None:
    late, lost = (do("time.sleep(600)", "do_with_grace", timeout=seconds) for seconds in (1.0, 60.0))
    submit(one, late)
    started(one, late)
    one.kill(late.job_id, 1, Outcome.CANCELLED)
    assert ends(one, 1, 10)[late.job_id].outcome is Outcome.CANCELLED
    submit(one, lost)
    started(one, lost)
    one.kill(lost.job_id, 1, Outcome.CANCELLED)
    assert one.poll(0.2) == []
    one.kill(lost.job_id, 1, Outcome.INTERRUPTED)
    assert ends(one, 1, 10)[lost.job_id].outcome is Outcome.INTERRUPTED


# -- progress


def test_the_latest_word_on_progress_is_known_at_once_and_gone_with_the_attempt(one: Runners) -> None:
    python = """
for number in range(10001):
    context.progress(number / 10000, f"of 10000: {number} " + "é" * 400)
context.once("go on")
"""
    wanted = do(python)
    submit(one, wanted)
    (question,) = asked(one)
    (said,) = one.progress().values()
    assert (said.fraction, said.note) == (1.0, "of 10000: 10000 " + "é" * 400)
    assert one.progress().keys() == {(wanted.job_id, 1)}
    one.answer(question, True)
    ends(one, 1)
    assert one.progress() == {}
    silent = do("context.once('go on')")
    submit(one, silent)
    (question,) = asked(one)
    assert one.progress() == {}, "an earlier attempt's word is not this one's"
    one.answer(question, True)
    ends(one, 1)


def test_progress_that_is_read_while_it_is_written_is_whole(one: Runners) -> None:
    python = """
for number in range(20000):
    context.progress((number % 10) / 10, str(number % 10) * (1 + number % 500))
"""
    submit(one, do(python))
    read = 0
    while not one.poll(0.0):
        for said in one.progress().values():
            assert set(said.note) == {str(round(said.fraction * 10))}
            read += 1
    assert read > 10


# -- once


def test_the_agents_answer_reaches_the_handler(one: Runners) -> None:
    wanted = do("result = [context.once('a'), context.once('b')]")
    submit(one, wanted)
    for first in (True, False):
        (question,) = asked(one)
        assert (question.task.job_id, question.task.attempt) == (wanted.job_id, 1)
        assert question.key == ("a" if first else "b")
        one.answer(question, first)
    assert result(ends(one, 1)[wanted.job_id]) == [True, False]


def test_several_threads_may_ask_and_tell(one: Runners) -> None:
    python = """
answers = {}
def ask(number):
    for _ in range(10):
        context.progress(number / 10)
    answers[number] = context.once(str(number))
threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
result = [answers[number] for number in range(8)]
"""
    wanted = do(python)
    submit(one, wanted)
    for _ in range(8):
        (question,) = asked(one)
        one.answer(question, int(question.key) % 2 == 0)
    assert result(ends(one, 1)[wanted.job_id]) == [True, False] * 4


def test_an_attempt_that_is_not_the_nodes_any_more_is_told_so(one: Runners) -> None:
    wanted = do("context.once('a')")
    submit(one, wanted)
    (question,) = asked(one)
    one.answer(question, None)
    assert error_of(ends(one, 1)[wanted.job_id])["type"] == "ContextLost"


def test_a_question_that_nobody_waits_for_any_more_confuses_no_later_one(one: Runners) -> None:
    python = """
def give_up(*_): raise TimeoutError
signal.signal(signal.SIGALRM, give_up)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try: context.once("first")
except TimeoutError: pass
result = context.once("second")
"""
    wanted = do(python)
    submit(one, wanted)
    first, second = asked(one, 2)
    one.answer(first, True)
    one.answer(second, False)
    assert result(ends(one, 1)[wanted.job_id]) is False


def test_a_thread_that_outlives_its_attempt_asks_for_nothing(one: Runners) -> None:
    python = """
kept = context
def later():
    time.sleep(0.3)
    kept.progress(0.7, "of an attempt that is over")
    try: kept.once("too late")
    except Exception as error: print(type(error).__name__, flush=True)
threading.Thread(target=later, daemon=True).start()
"""
    first, second = do(python), do("time.sleep(1); result = context.cancelled")
    submit(one, first, second)
    found = ends(one, 2)
    assert one.asked() == []
    output = found[second.job_id].output
    assert output is not None
    assert output.kept == b"ContextLost\n"
    assert one.progress() == {}


@pytest.mark.parametrize("key", ["['a']", "b'a'", "5"])
def test_a_key_that_is_no_text_fails_the_handler_and_harms_no_runner(one: Runners, key: str) -> None:
    assert error_of(end_of(one, do(f"context.once({key})")))["type"] == "TypeError"


def test_an_alarm_set_by_an_attempt_does_not_ring_in_the_next(one: Runners) -> None:
    python = """
def late(*_): raise TimeoutError("of another attempt")
signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.2)
"""
    careless, after = do(python), do("time.sleep(0.4); result = 'in peace'")
    submit(one, careless, after)
    assert result(ends(one, 2)[after.job_id]) == "in peace"


def test_what_an_attempt_wanted_done_with_signals_does_not_concern_the_next(one: Runners) -> None:
    careless = do(
        "for name in ('CHLD', 'TERM'): signal.signal(getattr(signal, f'SIG{name}'), signal.SIG_IGN)"
    )
    python = "result = [subprocess.run(['sh', '-c', line]).returncode for line in ('exit 3', 'kill $$')]"
    after = do(python)
    submit(one, careless, after)
    assert result(ends(one, 2)[after.job_id]) == [3, -signal.SIGTERM]


def test_a_context_works_in_the_handlers_own_process_only(one: Runners) -> None:
    python = """
child = os.fork()
if not child:
    try: context.once("in a child")
    except RuntimeError: os._exit(9)
    os._exit(0)
result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    assert result(end_of(one, do(python))) == 9


@pytest.mark.parametrize("unread", [0, 9])
def test_a_question_to_an_agent_that_is_gone_is_answered_as_such(unread: int) -> None:
    """What the agent has not read when it dies makes the other end see a reset."""
    ours, theirs = socket.socketpair()
    ours.sendall(b"x" * unread)
    theirs.close()
    file = Shared.create(1)
    with ours, pytest.raises(ContextLost):
        AttemptLink(Line(ours, Shared(file), 0), 1).once("key")
    os.close(file)


def test_a_question_dies_with_its_runner(tmp_path: Path) -> None:
    with runners(tmp_path, 1, config=HandlerConfig(modules=(TALKING,))) as made:
        wanted = do("context.once('a')", timeout=1.0)
        submit(made, wanted)
        (question,) = asked(made)
        assert ends(made, 1, 10)[wanted.job_id].outcome is Outcome.TIMED_OUT
        made.answer(question, True)
        assert result(end_of(made, do("result = 'in order'"))) == "in order"
