"""The fence: no write of an old term once a newer exists; nobody keeps the term by standing still (I3)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from mutirao.domain.job import State
from mutirao.errors import Fenced, StoreUnavailable
from mutirao.loop import boottime
from mutirao.metrics import AGENT
from mutirao.store.assignment import AssignmentStore
from mutirao.store.database import TermHeld
from tests.support.stage import Node, Stage, at_once, plan
from tests.support.waiting import until

Write = Callable[[AssignmentStore, Stage, Node], object]


@pytest.fixture
def stage(postgres_dsn: str) -> Iterator[Stage]:
    with Stage(postgres_dsn) as stage:
        yield stage


def everything(stage: Stage) -> dict[str, Any]:
    tables = ("jobs", "finished_jobs", "attempts", "audit", "nodes", "beats", "state_counts")
    return {table: sorted(map(str, stage.rows(f"SELECT * FROM {table}"))) for table in tables}


def busy(stage: Stage) -> Node:
    """A node with a job of its own and one of its past, one queued, one due: work for every write."""
    node = stage.node()
    _, past = stage.given(node, 2)
    stage.write("UPDATE jobs SET incarnation = 0 WHERE id = %s", past)
    _, due = stage.submit(2)
    stage.write("UPDATE jobs SET state = 'scheduled', queued_at = NULL WHERE id = %s", due)
    return node


def assign(store: AssignmentStore, stage: Stage, node: Node) -> object:
    queued = stage.rows("SELECT id FROM jobs WHERE state = 'queued'")
    return store.assign(plan([row.id for row in queued], node))


def declare_lost(store: AssignmentStore, stage: Stage, node: Node) -> object:
    return store.declare_lost(node.id, node.incarnation, node.counter, True)


WRITES: dict[str, Write] = {
    "assign": assign,
    "promote_due": lambda store, stage, node: store.promote_due(),
    "take_back": lambda store, stage, node: store.take_back([node.id]),
    "sweep": lambda store, stage, node: store.sweep(),
    "declare_lost": declare_lost,
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_an_old_terms_write_raises_changes_nothing_and_is_counted(stage: Stage, write: Write) -> None:
    node = busy(stage)
    old = stage.coordinator()
    stage.office()
    before, count = everything(stage), refusals()
    with pytest.raises(Fenced):
        write(old, stage, node)
    assert everything(stage) == before
    assert refusals() == count + 1


def refusals() -> float:
    return AGENT.get_sample_value("mutirao_fenced_transactions_total") or 0.0


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_the_same_write_in_office_does_change_something(stage: Stage, write: Write) -> None:
    node = busy(stage)
    now = stage.coordinator()
    before = everything(stage)
    write(now, stage, node)
    assert everything(stage) != before


def test_the_number_alone_is_no_office(stage: Stage) -> None:
    """A term number can come back after a failover; the pair cannot."""
    node = stage.node()
    jobs = stage.submit(2)
    office = stage.office("mine")
    impostor = AssignmentStore(stage.database, TermHeld(office.term, "other"))
    with pytest.raises(Fenced):
        impostor.assign(plan(jobs, node))
    with pytest.raises(Fenced):
        stage.terms.beat(TermHeld(office.term, "other"), 1.0)
    assert AssignmentStore(stage.database, office).assign(plan(jobs, node)) == {node.id: 2}


def test_postgresql_raises_nothing_by_itself(stage: Stage) -> None:
    """[T] An update that finds no such term is a success that touched nothing: it must be counted."""
    stage.office("mine")
    with stage.database.transaction() as tx:
        assert tx.execute("UPDATE term SET beat = beat + 1 WHERE term = 999") == 0


def test_a_take_that_was_beaten_to_it_is_refused(stage: Stage) -> None:
    seen = stage.terms.read()
    first = stage.terms.take(seen, "first", uuid4())
    assert first == TermHeld(seen.term + 1, "first")
    assert stage.terms.take(seen, "second", uuid4()) is None
    assert stage.terms.read().holder == "first"


def test_of_many_that_take_at_once_one_wins(stage: Stage) -> None:
    seen = stage.terms.read()
    takes = [partial(stage.terms.take, seen, f"holder-{i}", uuid4()) for i in range(4)]
    won = [office for office in at_once(takes) if office is not None]
    assert len(won) == 1
    assert (stage.terms.read().term, stage.terms.read().holder) == won[0]
    assert [(row.term, row.holder) for row in stage.rows("SELECT term, holder FROM terms")] == [won[0]]


def test_a_take_of_the_silent_compares_the_beat(stage: Stage) -> None:
    office = stage.office()
    seen = stage.terms.read()
    stage.terms.beat(office, 1.0)
    assert stage.terms.take(seen, "usurper", uuid4(), if_unmoved=True) is None
    assert stage.terms.take(stage.terms.read(), "usurper", uuid4(), if_unmoved=True) is not None


def test_audit_rows_of_an_old_term_never_follow_the_new_terms_first(stage: Stage) -> None:
    """Two that both believe, writing as fast as they can while the office passes between them."""
    node = stage.node()
    jobs = stage.submit(60)

    def keep_writing(mine: list[UUID]) -> int:
        fenced, store = 0, None
        while mine:
            if store is None:
                office = stage.terms.take(stage.terms.read(), f"holder-{uuid4().hex[:8]}", uuid4())
                store = AssignmentStore(stage.database, office) if office else None
                continue
            try:
                store.assign(plan(mine[:1], node))
                mine = mine[1:]
            except Fenced:
                fenced, store = fenced + 1, None
        return fenced

    fenced = at_once([lambda: keep_writing(jobs[:30]), lambda: keep_writing(jobs[30:])])
    rows = stage.rows("SELECT term FROM audit WHERE term IS NOT NULL ORDER BY id")
    assert [row.term for row in rows] == sorted(row.term for row in rows)
    assert len(rows) == len(jobs)
    assert sum(fenced) > 0, "the two never met: nothing was shown"


def test_a_holder_frozen_inside_its_transaction_is_ended(stage: Stage) -> None:
    """[T] It would hold the term row for as long as it stays frozen."""
    office = stage.office("frozen-holder")
    with psycopg.connect(stage.dsn) as frozen:
        frozen.execute("SET search_path = mutirao")
        frozen.execute("SELECT fence(%s, %s)", tuple(office))
        # The server's own bound must not be what frees the row here.
        frozen.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
        started = boottime()
        taken = stage.terms.take(stage.terms.read(), "successor", uuid4())
        assert taken == TermHeld(office.term + 1, "successor")
        assert boottime() - started < 3.0
        with pytest.raises(psycopg.OperationalError):
            frozen.execute("SELECT 1")


def test_a_fenced_session_left_alone_is_ended_by_the_server(stage: Stage) -> None:
    office = stage.office()
    frozen = psycopg.connect(stage.dsn)
    frozen.execute("SET search_path = mutirao")
    frozen.execute("SELECT fence(%s, %s)", tuple(office))
    pid = frozen.info.backend_pid
    alive = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid = %s"
    until(lambda: stage.rows(alive, pid)[0].n == 0, 4.0, "the idle office's session is ended")
    frozen.close()
    stage.terms.beat(office, 1.0)


def test_an_office_frozen_after_an_answer_is_ended_by_the_server(stage: Stage) -> None:
    """As the application sends it: pipelined, where only a sync lets the server see an idle session."""
    office = stage.office()
    alive = "SELECT count(*) AS n FROM pg_stat_activity WHERE pid = %s"
    with pytest.raises(StoreUnavailable), stage.database.transaction(office=office) as tx:
        pid = tx.one("SELECT pg_backend_pid() AS pid").pid
        until(lambda: stage.rows(alive, pid)[0].n == 0, 4.0, "the idle office's session is ended")
    stage.terms.beat(office, 1.0)


def test_a_fenced_transaction_is_marked_with_its_holder(stage: Stage) -> None:
    """By this name the successor finds it, and only while it lasts."""
    office = stage.office("marked-holder")
    named = "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name = 'marked-holder'"
    with stage.database.transaction(office=office) as tx:
        tx.sync()
        assert stage.rows(named)[0].n == 1
    assert stage.rows(named)[0].n == 0


def test_a_take_waits_for_a_working_holder_only_briefly_and_its_work_counts(stage: Stage) -> None:
    """What the old term commits before the new one exists stands; the new term follows it."""
    node = stage.node()
    jobs = stage.submit(1)
    office = stage.office("working")
    entered, go_on = threading.Event(), threading.Event()
    given: list[int] = []

    def work() -> None:
        with stage.database.transaction(office=office) as tx:
            tx.sync()
            entered.set()
            go_on.wait(5.0)
            given.append(tx.execute("UPDATE term SET beat = 77"))

    worker = threading.Thread(target=work)
    worker.start()
    assert entered.wait(5.0)
    threading.Timer(0.3, go_on.set).start()
    taken = stage.terms.take(stage.terms.read(), "next", uuid4())
    worker.join(5.0)
    assert given == [1] and taken is not None
    assert AssignmentStore(stage.database, taken).assign(plan(jobs, node)) == {node.id: 1}
    assert stage.state(jobs[0]) == State.ASSIGNED
