"""Group commit: what arrives together is stored together, and everyone gets their own answer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from uuid import UUID, uuid4

import pytest

from mutirao.domain.job import NewJob, State, Submitted
from mutirao.errors import Conflict, MutiraoError, OutcomeUnknown, StoreUnavailable
from mutirao.services.grouping import GroupCommit

WAIT = 20.0


def job(key: str | None = None) -> NewJob:
    return NewJob(id=uuid4(), handler="echo", payload="{}", idempotency_key=key)


class Store:
    """Keeps what it is given; the first call waits for `go`, and a job with the key `bad` is a conflict."""

    def __init__(self) -> None:
        self.calls: list[list[UUID]] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        self.failure: Exception | None = None

    def __call__(self, jobs: Sequence[NewJob]) -> list[Submitted]:
        self.calls.append([one.id for one in jobs])
        self.entered.set()
        assert self.go.wait(WAIT)
        if self.failure is not None:
            raise self.failure
        if any(one.idempotency_key == "bad" for one in jobs):
            raise Conflict("used before")
        return [Submitted(one.id, State.QUEUED, True) for one in jobs]


class Callers:
    """Threads that submit one job each, and what each of them got."""

    def __init__(self, group: GroupCommit) -> None:
        self._group = group
        self._threads: list[threading.Thread] = []
        self.answers: dict[UUID, list[UUID] | BaseException] = {}

    def submit(self, one: NewJob) -> None:
        thread = threading.Thread(target=self._run, args=(one,))
        thread.start()
        self._threads.append(thread)

    def _run(self, one: NewJob) -> None:
        try:
            self.answers[one.id] = [answer.id for answer in self._group.submit([one])]
        except (MutiraoError, ZeroDivisionError) as error:
            self.answers[one.id] = error

    def join(self) -> None:
        for thread in self._threads:
            thread.join(WAIT)
            assert not thread.is_alive()


def rush(store: Store, jobs: list[NewJob]) -> Callers:
    """The first job is being stored while all others arrive."""
    group = GroupCommit(store)
    callers = Callers(group)
    callers.submit(jobs[0])
    assert store.entered.wait(WAIT)
    for one in jobs[1:]:
        callers.submit(one)
    while group.waiting < len(jobs) - 1:
        threading.Event().wait(0.001)
    store.go.set()
    callers.join()
    return callers


def test_what_arrives_meanwhile_is_stored_in_one_go() -> None:
    store, jobs = Store(), [job() for _ in range(8)]
    callers = rush(store, jobs)
    assert [len(call) for call in store.calls] == [1, 7]
    assert callers.answers == {one.id: [one.id] for one in jobs}


def test_a_conflict_stays_with_its_own_caller() -> None:
    store, jobs = Store(), [job(), job(), job("bad"), job()]
    callers = rush(store, jobs)
    assert isinstance(callers.answers.pop(jobs[2].id), Conflict)
    assert callers.answers == {one.id: [one.id] for one in jobs if one is not jobs[2]}


@pytest.mark.parametrize("failure", [StoreUnavailable("away"), OutcomeUnknown("lost")])
def test_an_outage_is_everyones(failure: MutiraoError) -> None:
    store, jobs = Store(), [job() for _ in range(4)]
    store.failure = failure
    callers = rush(store, jobs)
    assert {type(answer) for answer in callers.answers.values()} == {type(failure)}
    assert len(store.calls) == 2


def test_a_defect_while_storing_leaves_nobody_waiting() -> None:
    store, jobs = Store(), [job() for _ in range(4)]
    store.failure = ZeroDivisionError()
    callers = rush(store, jobs)
    kinds = [type(callers.answers[one.id]) for one in jobs]
    assert sorted(kind.__name__ for kind in kinds) == ["StoreUnavailable"] * 2 + ["ZeroDivisionError"] * 2


def test_a_large_submission_does_not_wait_for_others() -> None:
    store = Store()
    store.go.set()
    jobs = [job() for _ in range(200)]
    assert [answer.id for answer in GroupCommit(store).submit(jobs)] == [one.id for one in jobs]


def test_one_caller_after_another_is_never_held_up() -> None:
    store = Store()
    store.go.set()
    group = GroupCommit(store)
    for _ in range(5):
        one = job()
        assert [answer.id for answer in group.submit([one])] == [one.id]
    assert [len(call) for call in store.calls] == [1] * 5
