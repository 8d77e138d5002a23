"""Attempts in a real agent: what they write and tell is there to read, what they do once is done once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import psycopg
import pytest

from mutirao.domain.job import Backoff
from mutirao.domain.views import JobView
from mutirao.embedded.valkey import Valkey
from mutirao.store import sql
from mutirao.store.insights import Insights
from tests.integration.conftest import DatabaseServer
from tests.support.agents import AgentProcess, Site, site
from tests.support.pgproxy import Proxy, opening, proxy
from tests.support.running import HANDLERS
from tests.support.waiting import until

TALKING = str(Path(__file__).parents[1] / "talking_handlers.py")
AT_ONCE = Backoff(0.0, 0.0)
ONCE = sql.load("once.sql")
What = Literal["commit", "answer"]


@pytest.fixture(scope="module")
def database(database_server: DatabaseServer, migrated_template: str) -> Iterator[str]:
    dsn = database_server.create(migrated_template)
    yield dsn
    database_server.drop(dsn)


@pytest.fixture(scope="module")
def link(database: str) -> Iterator[Proxy]:
    with proxy(database) as link:
        yield link


@pytest.fixture(scope="module")
def shared(
    tmp_path_factory: pytest.TempPathFactory, database: str, link: Proxy, redis_server: Valkey
) -> Iterator[Site]:
    """One agent for all that leave it in order."""
    settings = {"redis_prefix": "talking", "handler_modules": [HANDLERS, TALKING], "postgres": link.dsn}
    with site(tmp_path_factory.mktemp("site"), database, redis_server.url) as made:
        made.agent("talking", **settings).start().serving()
        yield made


@pytest.fixture
def made(tmp_path: Path, postgres_dsn: str, redis_url: str) -> Iterator[Site]:
    with site(tmp_path, postgres_dsn, redis_url) as made:
        yield made


def do(site: Site, python: str, handler: str = "do", **fields: Any) -> UUID:
    return site.submit(handler, {"python": python}, **{"max_retries": 0, **fields})


def view(site: Site, job: UUID) -> JobView:
    found = Insights(site.stage.database).job(job)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("end", "state", "outcome"),
    [("", "succeeded", "succeeded"), ("raise RuntimeError('a\\0b\\ud800')", "dead", "failed")],
)
def test_output_that_is_no_text_ends_in_one_attempt_and_is_shown(
    shared: Site, end: str, state: str, outcome: str
) -> None:
    job = do(shared, rf"os.write(1, b'a\0b\xff\xc3\xa9'); print('\ud800'){chr(10)}{end}")
    shared.becomes(job, state)
    (attempt,) = view(shared, job).attempts
    assert (attempt.outcome, attempt.output) == (outcome, "a\ufffdb\ufffdé\\ud800\n")
    assert attempt.output_dropped == 0


def test_a_flood_is_capped_and_says_so(shared: Site) -> None:
    job = do(shared, "for _ in range(3000): print('x' * 99)\nprint('the end')")
    shared.becomes(job, "succeeded")
    (attempt,) = view(shared, job).attempts
    assert attempt.output is not None
    assert len(attempt.output) == 64 * 1024
    assert attempt.output.endswith("x\nthe end\n")
    assert attempt.output_dropped == 300_008 - 64 * 1024


def test_every_attempt_keeps_its_own_output(shared: Site) -> None:
    python = "print('attempt', context.attempt)\nif context.attempt < 3: raise RuntimeError('again')"
    job = do(shared, python, max_retries=2, backoff=AT_ONCE)
    shared.becomes(job, "succeeded")
    assert [attempt.output for attempt in view(shared, job).attempts] == [f"attempt {n}\n" for n in (1, 2, 3)]


def test_progress_is_seen_while_the_attempt_runs(shared: Site, tmp_path: Path) -> None:
    enough = tmp_path / "enough"
    python = f"""
context.progress(0, "begun")
while not context.cancelled: time.sleep(0.01)
context.progress(1)
while not os.path.exists({str(enough)!r}): time.sleep(0.01)
"""
    job = do(shared, python, "do_with_grace")
    until(
        lambda: (view(shared, job).progress, view(shared, job).progress_note) == (0.0, "begun"), 10, "begun"
    )
    shared.stage.jobs.cancel([job], "somebody")
    until(lambda: (view(shared, job).progress, view(shared, job).progress_note) == (1.0, None), 10, "done")
    assert view(shared, job).cancelling
    enough.touch()
    shared.becomes(job, "cancelled")
    assert view(shared, job).progress is None


def test_progress_told_while_somebody_holds_the_job_is_noted_later(shared: Site, tmp_path: Path) -> None:
    go, told, done = (tmp_path / name for name in ("go", "told", "done"))
    wait = "\nwhile not os.path.exists({!r}): time.sleep(0.01)\n".format
    said = f"context.progress(1, 'last')\nopen({str(told)!r}, 'w').close()"
    first = do(shared, wait(str(go)) + said + wait(str(done)))
    shared.becomes(first, "running")
    with psycopg.connect(shared.dsn) as somebody:
        somebody.execute("SELECT 1 FROM mutirao.jobs WHERE id = %s FOR UPDATE", [first])
        go.touch()
        second = do(shared, wait(str(told)) + "context.progress(1, 'later')" + wait(str(done)))
        until(lambda: view(shared, second).progress_note == "later", 10, "a later word is noted")
    until(lambda: view(shared, first).progress_note == "last", 10, "the word that was passed over")
    done.touch()
    for job in (first, second):
        shared.becomes(job, "succeeded")


def test_a_cancelled_attempt_that_ends_in_its_grace_is_cancelled_and_shows_what_it_said(shared: Site) -> None:
    job = do(shared, "while not context.cancelled: time.sleep(0.01)\nprint('tidy')", "do_with_grace")
    shared.becomes(job, "running")
    shared.stage.jobs.cancel([job], "somebody")
    shared.becomes(job, "cancelled", 10.0)
    (attempt,) = view(shared, job).attempts
    assert (attempt.outcome, attempt.output) == ("cancelled", "tidy\n")


def test_what_is_asked_for_once_is_granted_once_in_all_attempts(shared: Site, tmp_path: Path) -> None:
    python = f"""
if context.once("effect"):
    os.write(os.open({str(tmp_path / "effects")!r}, os.O_CREAT | os.O_APPEND | os.O_WRONLY), b"done")
    os.kill(os.getpid(), signal.SIGKILL)
result = context.once("effect"), context.once("effect"), context.once("another")
"""
    job = do(shared, python, max_retries=3, backoff=AT_ONCE)
    shared.becomes(job, "succeeded")
    found = view(shared, job)
    assert bytes(found.result or b"") == b"[false, false, true]"
    assert [attempt.outcome for attempt in found.attempts] == ["runner_died", "succeeded"]
    assert (tmp_path / "effects").read_text() == "done"


def test_how_long_jobs_were_due_is_measured(shared: Site) -> None:
    agent = shared._agents[0]
    before = agent.metric("mutirao_job_wait_seconds_count")
    shared.becomes(do(shared, "pass"), "succeeded")
    assert agent.metric("mutirao_job_wait_seconds_count") == before + 1


@pytest.mark.parametrize("what", ["commit", "answer"])
def test_a_grant_whose_request_or_answer_was_lost_is_the_same_grant(
    shared: Site, link: Proxy, what: What
) -> None:
    lost = link.lose(what, opening(ONCE.take_keys))
    job = do(shared, "result = context.once('effect'), context.once('effect')")
    assert lost.wait(10.0)
    shared.becomes(job, "succeeded")
    assert bytes(view(shared, job).result or b"") == b"[true, false]"
    assert len(shared.stage.rows("SELECT 1 FROM once_keys WHERE job_id = %s", job)) == 1


def test_while_postgresql_is_silent_the_handler_waits(shared: Site, link: Proxy, tmp_path: Path) -> None:
    marks = tmp_path / "begun", tmp_path / "granted"
    begun, granted = (f"open({str(mark)!r}, 'w').close()" for mark in marks)
    with link.holding(opening(ONCE.take_keys)):
        job = do(shared, f"{begun}\nresult = context.once('effect')\n{granted}")
        until(marks[0].exists, 10, "the handler has begun")
        shared.becomes(do(shared, "pass"), "succeeded")
        assert not marks[1].exists()
    shared.becomes(job, "succeeded")
    assert bytes(view(shared, job).result or b"") == b"true"


@pytest.mark.parametrize(
    ("whom", "outcome"),
    [
        ("os.getpid()", "runner_died"),
        ("int(open(f'/proc/{os.getppid()}/stat').read().split()[3])", "node_lost"),
    ],
    ids=["runner", "agent"],
)
def test_a_handler_that_kills_its_runner_or_agent_every_time_is_dead_after_its_bound(
    made: Site, whom: str, outcome: str
) -> None:
    starts = made.directory / "starts"
    python = f"""
with open({str(starts)!r}, "a") as file: file.write(f"{{context.attempt}}\\n")
os.kill({whom}, signal.SIGKILL)
time.sleep(600)
"""
    agent = made.agent("victim", handler_modules=[TALKING]).start().serving()
    job = do(made, python, max_retries=2, backoff=AT_ONCE)
    until(lambda: _ended(made, agent, job), 60, "the job is dead")
    assert starts.read_text().split() == ["1", "2", "3"]
    assert made.stage.state(job) == "dead"
    assert [attempt.outcome for attempt in view(made, job).attempts] == [outcome] * 3
    if not agent.running:
        agent.start()
    made.becomes(do(made, "pass"), "succeeded")


def _ended(site: Site, agent: AgentProcess, job: UUID) -> bool:
    if not agent.running:
        agent.kill()
        agent.start()
    return site.stage.state(job) == "dead"
