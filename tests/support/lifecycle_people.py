"""Random steps of submitters and coordinators, these in office and past it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, initialize, multiple, rule

from mutirao.domain.job import ENDED, State
from mutirao.errors import Conflict
from mutirao.store.database import TermHeld
from tests.support.lifecycle_model import Job
from tests.support.lifecycle_world import JOBS, LIVES, OFFICES, World, owner_of, unusual
from tests.support.stage import Node, new_job, plan

FULL = 1000


class Submitters(World):
    """Whoever asks for jobs and changes their mind."""

    @unusual
    @rule(
        target=JOBS,
        retries=st.integers(0, 2),
        later=st.booleans(),
        key=st.sampled_from([None, None, "a", "b"]),
        body=st.sampled_from([b"1", b"2"]),
    )
    def submit(self, retries: int, later: bool, key: str | None, body: bytes) -> UUID | MultipleResults[UUID]:
        run_at = datetime.now(UTC) + timedelta(days=1) if later else None
        made = {"max_retries": retries, "run_at": run_at, "idempotency_key": key, "request_hash": body}
        job = new_job(id=next(self.ids), **made)
        known = self.model.keys.get(key or "")
        if known is not None and known[0] != body:
            with pytest.raises(Conflict):
                self.stage.jobs.submit([job])
            return multiple()
        (answer,) = self.stage.jobs.submit([job])
        if known is not None:
            assert (answer.id, answer.created) == (known[1], False)
            assert answer.state == self.model.jobs[known[1]].state
            return multiple()
        state = State.SCHEDULED if later else State.QUEUED
        assert (answer.id, answer.state, answer.created) == (job.id, state, True)
        self.model.jobs[job.id] = Job(state, retries, retries + 1)
        if key is not None:
            self.model.keys[key] = (body, job.id)
        return job.id

    @unusual
    @rule(wanted=st.lists(JOBS, min_size=1, max_size=3, unique=True))
    def cancel(self, wanted: list[UUID]) -> None:
        done = self.stage.jobs.cancel(wanted, "somebody")
        for job in wanted:
            row = self.model.jobs[job]
            if row.state is State.RUNNING:
                row.cancel = True
                assert row.owner is not None and done.asked[job] == row.owner[0]
            elif row.state in ENDED:
                assert done.too_late[job] == row.state
            else:
                assert job in done.ended
                row.cancel = True
                row.move(State.CANCELLED)

    @unusual
    @rule(some=st.one_of(st.none(), st.lists(JOBS, min_size=1, max_size=3, unique=True)))
    def replay(self, some: list[UUID] | None) -> None:
        wanted = some or list(self.model.jobs)
        expected = {job for job in wanted if self.model.replay(job)}
        assert self.stage.jobs.replay(wanted, "somebody") == expected

    @unusual
    @rule(job=JOBS)
    def discard(self, job: UUID) -> None:
        row = self.model.jobs[job]
        is_letter = row.state is State.DEAD and not row.discarded
        assert self.stage.jobs.discard([job], "somebody") == ({job} if is_letter else frozenset())
        row.discarded |= is_letter


class Coordinators(World):
    """Whoever is in office, was, or thinks so."""

    @initialize(target=OFFICES)
    def first_term(self) -> TermHeld:
        return self.take_term()

    @unusual
    @rule(target=OFFICES)
    def new_term(self) -> TermHeld:
        return self.take_term()

    @unusual
    @rule(
        past=st.one_of(st.none(), OFFICES),
        life=LIVES,
        some=st.one_of(st.none(), st.lists(JOBS, min_size=1, max_size=4, unique=True)),
    )
    def assign(self, past: TermHeld | None, life: Node, some: list[UUID] | None) -> None:
        office, wanted = past or self.office(), some or self.queued()
        takes = self.model.current(owner_of(life)) and self.model.nodes[life.id].status == "live"
        # What was seen under one contract is not given out under another.
        seen = self.model.jobs[wanted[0]].contract if wanted else 0
        fit = [job for job in wanted if self.model.jobs[job].contract == seen]
        ready = [job for job in fit if self.model.jobs[job].state is State.QUEUED] if takes else []
        with self.fenced(office):
            given = self.coordinator(office).assign(plan(wanted, life, seen))
            assert given == ({life.id: len(ready)} if ready else {})
            for job in ready:
                self.model.jobs[job].state, self.model.jobs[job].owner = State.ASSIGNED, owner_of(life)

    @unusual
    @rule(office=OFFICES)
    def time_passes(self, office: TermHeld) -> None:
        self.stage.write("UPDATE jobs SET run_at = now() - interval '1 s' WHERE state = 'scheduled'")
        due = self.model.among(lambda job: job.state is State.SCHEDULED)
        with self.fenced(office):
            assert self.coordinator(office).promote_due(FULL) == len(due)
            self.model.requeue(due)

    @unusual
    @rule(office=OFFICES, life=LIVES)
    def take_back(self, office: TermHeld, life: Node) -> None:
        taken = self.model.among(
            lambda job: job.state is State.ASSIGNED and job.owner is not None and job.owner[0] == life.id
        )
        with self.fenced(office):
            assert self.coordinator(office).take_back([life.id]) == len(taken)
            self.model.requeue(taken)

    @unusual
    @rule(office=OFFICES)
    def sweep_and_beat(self, office: TermHeld) -> None:
        with self.fenced(office):
            assert self.coordinator(office).sweep() == 0
        with self.fenced(office):
            self.stage.terms.beat(office, 0.0)

    @unusual
    @rule(office=OFFICES, life=LIVES, seen=st.sampled_from([0, 0, 0, -1, 1]), redis_on=st.booleans())
    def declare_lost(self, office: TermHeld, life: Node, seen: int, redis_on: bool) -> None:
        row = self.model.nodes[life.id]
        judged = (life.id, life.incarnation, row.counter + seen, redis_on)
        true = self.model.current(owner_of(life)) and row.status in ("live", "draining")
        true = true and seen == 0 and redis_on == row.redis_on
        with self.fenced(office):
            moved = self.coordinator(office).declare_lost(*judged)
            if true:
                row.incarnation, row.status = row.incarnation + 1, "lost"
                assert moved == self.model.give_back(life.id)
            else:
                assert moved is None
