"""What handlers write: kept with the attempt that wrote it, whatever its end, in bounded memory."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import psutil
import pytest
import structlog.testing

from mutirao.agent.runners import Finished, Runners, Task
from mutirao.domain.job import Outcome
from mutirao.registry import HandlerConfig
from mutirao.tail import KEPT
from tests.support.running import end_of, ends, runners, started, submit, task
from tests.support.waiting import until

TALKING = str(Path(__file__).parents[1] / "talking_handlers.py")
MB = 1 << 20


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    """A single runner: what one job does to it, the next one meets."""
    with runners(tmp_path_factory.mktemp("runners"), 1, config=HandlerConfig(modules=(TALKING,))) as made:
        yield made


def do(python: str, handler: str = "do", timeout: float = 60.0) -> Task:
    return task(handler, {"python": python}, timeout=timeout)


def said(finished: Finished) -> str:
    return finished.output.text() if finished.output is not None else ""


def size(finished: Finished) -> int:
    return len(finished.output.kept) + finished.output.dropped if finished.output is not None else 0


# -- whose it is


def test_all_that_a_handler_and_its_children_write_is_kept_in_order(one: Runners) -> None:
    python = """
print("one")
sys.stderr.write("two\\n")
os.write(1, b"three\\n")
subprocess.run(["sh", "-c", "echo four; echo five >&2"], check=True)
context.log.info("six %s", "of ten")
context.log.debug("not this")
sys.stdout.buffer.write(b"seven\\n"); sys.stdout.buffer.flush()
print("no end of line", end="")
"""
    finished = end_of(one, do(python))
    assert finished.outcome is Outcome.SUCCEEDED
    first, second, third, fourth, fifth, sixth, *rest = said(finished).splitlines()
    assert [first, second, third, fourth, fifth] == ["one", "two", "three", "four", "five"]
    assert sixth.endswith(" INFO six of ten")
    assert rest == ["seven", "no end of line"]


def test_what_a_stream_still_holds_when_the_handler_returns_is_its_own(one: Runners) -> None:
    finished = end_of(one, do('sys.stdout.buffer.write(b"held back")'))
    assert said(finished) == "held back"


def test_a_silent_attempt_has_no_output(one: Runners) -> None:
    assert end_of(one, do("pass")).output is None


def test_each_of_many_attempts_has_its_own_output_and_no_other(tmp_path: Path) -> None:
    dice = random.Random(5)
    with runners(tmp_path, config=HandlerConfig(modules=(TALKING,))) as made:
        lengths = [dice.choice([0, 0, 1, 10, 5000, 70_000, 400_000]) for _ in range(400)]
        tasks = [
            do(f"if {length}: os.write(1, b'{number:04}' * {length})")
            for number, length in enumerate(lengths)
        ]
        submit(made, *tasks)
        found = ends(made, len(tasks), 60)
    for number, (length, wanted) in enumerate(zip(lengths, tasks, strict=True)):
        finished = found[wanted.job_id]
        assert size(finished) == 4 * length
        assert said(finished) == (f"{number:04}" * length)[-KEPT:]


@pytest.mark.parametrize(
    ("how", "outcome"),
    [
        ("os._exit(3)", Outcome.RUNNER_DIED),
        ("os.kill(os.getpid(), signal.SIGKILL)", Outcome.RUNNER_DIED),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Outcome.RUNNER_DIED),
        ("time.sleep(600)", Outcome.TIMED_OUT),
        ("raise RuntimeError('no')", Outcome.FAILED),
        ("threading.Thread(target=time.sleep, args=(600,)).start()", Outcome.SUCCEEDED),
    ],
)
def test_whatever_the_end_the_output_is_kept_and_is_the_attempts_own(
    one: Runners, how: str, outcome: Outcome
) -> None:
    before, wanted = do("print('of another')"), do(f"print('last words', end='')\n{how}", timeout=2.0)
    after = do("print('and of the next')")
    submit(one, before, wanted, after)
    found = ends(one, 3)
    assert found[wanted.job_id].outcome is outcome
    assert said(found[wanted.job_id]).startswith("last words")
    assert ("Segmentation fault" in said(found[wanted.job_id])) == ("SEGV" in how)
    assert "of another" not in said(found[wanted.job_id])
    assert (said(found[before.job_id]), said(found[after.job_id])) == ("of another\n", "and of the next\n")


def test_a_killed_attempts_output_is_kept(one: Runners) -> None:
    wanted = do("print('running'); time.sleep(600)")
    submit(one, wanted)
    started(one, wanted)
    until(lambda: not one.poll(0.02) and one._crew and one._crew.outputs._pipes[0]._held, 5, "it has written")
    assert one.kill(wanted.job_id, 1, Outcome.CANCELLED)
    assert said(ends(one, 1)[wanted.job_id]) == "running\n"


def test_what_c_code_prints_is_its_attempts_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its library has a buffer of its own, and would keep it beyond the attempt."""
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    with runners(tmp_path, 1, config=HandlerConfig(modules=(TALKING,))) as made:
        printing = do("ctypes.CDLL(None).printf(b'from C' * 1000)")
        after = do("print('next')")
        submit(made, printing, after)
        found = ends(made, 2)
    assert (said(found[printing.job_id]), said(found[after.job_id])) == ("from C" * 1000, "next\n")


def test_what_is_written_before_any_job_is_logged(tmp_path: Path) -> None:
    with (
        structlog.testing.capture_logs() as logs,
        runners(tmp_path, config=HandlerConfig(modules=(TALKING,))) as made,
    ):
        assert end_of(made, do("pass")).output is None
    told = [line["output"] for line in logs if line["event"] == "runner_output"]
    assert told and set(told) == {"loaded without a job\n"}


# -- what a handler may do to its streams


@pytest.mark.parametrize(
    "harm",
    [
        "os.close(1); os.close(2)",
        "os.dup2(os.open('/dev/null', os.O_WRONLY), 1)",
        "sys.stdout.close(); sys.stderr.close()",
        "sys.stdout = None; sys.stderr = None",
        "sys.stdout = io.StringIO()",
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, encoding='ascii')",
        "sys.stdout.detach()",
        "os.set_blocking(1, False)",
        "subprocess.run([sys.executable, '-c', 'import os; os.set_blocking(1, False)'], check=True)",
    ],
)
def test_the_next_job_has_its_streams_whole(one: Runners, harm: str) -> None:
    harmed, after = do(harm), do("print('x' * 1000000); sys.stderr.write('whole')")
    submit(one, harmed, after)
    found = ends(one, 2)
    assert found[harmed.job_id].outcome is Outcome.SUCCEEDED
    assert found[after.job_id].outcome is Outcome.SUCCEEDED
    assert size(found[after.job_id]) == 1_000_006
    assert said(found[after.job_id]).endswith("x\nwhole")


def test_a_child_that_makes_the_pipe_unblocking_costs_its_parent_nothing(one: Runners) -> None:
    python = """
subprocess.run([sys.executable, "-c", "import os; os.set_blocking(1, False)"], check=True)
for _ in range(40): print("x" * 99_999)
"""
    finished = end_of(one, do(python))
    assert (finished.outcome, size(finished)) == (Outcome.SUCCEEDED, 4_000_000)


def test_a_write_that_holds_the_interpreter_lock_does_not_block_for_ever(one: Runners) -> None:
    """Nothing in the runner could read its pipe: no other thread of it runs meanwhile."""
    python = f"""
library = ctypes.PyDLL(None)
data = b"y" * {4 * MB}
left = len(data)
while left:
    left -= library.write(1, data, left)
"""
    finished = end_of(one, do(python))
    assert (finished.outcome, size(finished)) == (Outcome.SUCCEEDED, 4 * MB)


# -- bytes that are no text


def test_what_is_no_text_is_shown_with_replacement_characters(one: Runners) -> None:
    finished = end_of(one, do(r"os.write(1, b'a\0b\xff\xfe\xed\xa0\x80 \xc3\xa9\n')"))
    assert said(finished) == "a\ufffdb" + "\ufffd" * 5 + " é\n"
    many = end_of(one, do(r"os.write(1, b'\xff' * 60000)")).output
    assert many is not None
    assert set(many.text()) == {"\ufffd"}
    assert KEPT - 3 < len(many.text().encode()) <= KEPT
    assert len(many.fitted().kept) + many.fitted().dropped == 60_000


# -- floods

LINES = "line = 'x' * 99\nfor number in range(1048576): print(line)\nprint('the end')"
NO_NEWLINE = "for _ in range(100): os.write(1, b'x' * 1048576)\nos.write(1, b'the end')"
SHORT = NO_NEWLINE.replace("100", "5")
ENDLESS = "while True: os.write(1, b'x' * 65536)"
ENDLESS_CHILD = "subprocess.run(['yes'])"


def _growth(act: Callable[[], Finished]) -> tuple[Finished, int]:
    """By how much this process, which is the agent here, grew at most."""
    process, done = psutil.Process(), threading.Event()
    before = process.memory_info().rss
    most = [before]

    def watch() -> None:
        while not done.wait(0.02):
            most[0] = max(most[0], process.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        return act(), most[0] - before
    finally:
        done.set()
        watcher.join()


@pytest.mark.parametrize(
    ("python", "outcome", "total"),
    [
        pytest.param(LINES, Outcome.SUCCEEDED, 100 * MB + 8, id="lines"),
        pytest.param(NO_NEWLINE, Outcome.SUCCEEDED, 100 * MB + 7, id="no newline"),
        pytest.param(ENDLESS, Outcome.TIMED_OUT, None, id="endless"),
        pytest.param(ENDLESS_CHILD, Outcome.TIMED_OUT, None, id="endless child"),
        pytest.param(f"{SHORT}\nraise RuntimeError('no')", Outcome.FAILED, 5 * MB + 7, id="failed"),
        pytest.param(f"{SHORT}\nos._exit(7)", Outcome.RUNNER_DIED, 5 * MB + 7, id="exited"),
    ],
)
def test_a_flood_costs_little_memory_and_its_tail_is_kept(
    one: Runners, python: str, outcome: Outcome, total: int | None
) -> None:
    wanted = do(python, timeout=60.0 if total else 2.0)
    finished, growth = _growth(lambda: end_of(one, wanted, 60.0))
    assert growth < 50 * MB
    assert finished.outcome is outcome
    assert finished.output is not None
    assert len(finished.output.kept) == len(said(finished).encode()) == KEPT
    assert finished.output.dropped > 0
    if total is not None:
        assert size(finished) == total
        assert said(finished).rstrip("\n").endswith("the end")


def test_a_flood_takes_little_of_the_agents_time_and_holds_nobody_up(tmp_path: Path) -> None:
    with runners(tmp_path, config=HandlerConfig(modules=(TALKING,))) as made:
        flood = do(ENDLESS)
        submit(made, flood)
        started(made, flood)
        own = psutil.Process().cpu_times()
        found: dict[UUID, Finished] = {}
        quick = [do("print('quick')") for _ in range(50)]
        submit(made, *quick)
        found = ends(made, 50)
        assert {said(found[item.job_id]) for item in quick} == {"quick\n"}
        assert made.kill(flood.job_id, 1, Outcome.CANCELLED)
        assert size(ends(made, 1)[flood.job_id]) > 0
        now = psutil.Process().cpu_times()
        assert now.user + now.system - own.user - own.system < 5.0


def test_a_program_left_running_keeps_nobody_from_ending(one: Runners) -> None:
    python = "print(subprocess.run('sleep 600 & echo $!', shell=True, capture_output=False).returncode)"
    finished = end_of(one, do(python), 20.0)
    assert finished.outcome is Outcome.SUCCEEDED
    pid, status = said(finished).split()
    assert status == "0"
    assert not psutil.pid_exists(int(pid))
