"""Random steps, legal and not, by everybody at once on one real database: each answers as the model says.

After every step the tables equal the model; after every run the checker finds I1 and I3 to I6 kept.
"""

from __future__ import annotations

from uuid import UUID

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    MultipleResults,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mutirao.domain.job import Outcome, State
from mutirao.store.execution import Claim, ExecutionStore
from tests.support.checker import check
from tests.support.lifecycle_model import Job
from tests.support.lifecycle_nodes import DELAYS, OUTCOMES, Nodes, Workers
from tests.support.lifecycle_people import Coordinators, Submitters
from tests.support.lifecycle_world import CLAIMS, JOBS, owner_of
from tests.support.stage import Stage, ack, new_job

PRESENT = """
SELECT id, state::text, attempt, max_attempts, node, incarnation, claim_token,
       cancel_requested_at IS NOT NULL AS cancel, false AS discarded, contract FROM jobs
UNION ALL
SELECT id, state::text, attempt, max_attempts, NULL, NULL, NULL,
       cancel_requested_at IS NOT NULL, discarded_at IS NOT NULL, contract FROM finished_jobs
"""


class Lifecycle(Submitters, Coordinators, Nodes, Workers):
    """All of them; here is the ordinary course of things, so that the extraordinary has something to meet."""

    @initialize(target=JOBS, retries=st.lists(st.integers(0, 2), min_size=4, max_size=8))
    def first_jobs(self, retries: list[int]) -> MultipleResults[UUID]:
        made = [new_job(id=next(self.ids), max_retries=bound) for bound in retries]
        self.stage.jobs.submit(made)
        for job in made:
            self.model.jobs[job.id] = Job(State.QUEUED, job.max_retries, job.max_retries + 1)
        return multiple(*(job.id for job in made))

    @precondition(lambda self: self.living())
    @rule(share=st.integers(1, 4))
    def give_out(self, share: int) -> None:
        queued = self.queued()
        for turn, life in enumerate(self.living()):
            if wanted := queued[turn * share : (turn + 1) * share]:
                self.assign(None, life, wanted)

    @precondition(lambda self: any(self.model.assigned_to(owner_of(life)) for life in self.living()))
    @rule(target=CLAIMS, limit=st.integers(1, 3))
    def start(self, limit: int) -> MultipleResults[Claim]:
        return multiple(*(claim for life in self.living() for claim in self.start_attempts(life, limit)))

    @precondition(lambda self: self.running())
    @rule(outcome=st.sampled_from(OUTCOMES), delay=st.sampled_from(DELAYS))
    def finish(self, outcome: Outcome, delay: float | None) -> None:
        told, owner = self.running()[0]
        store = ExecutionStore(self.stage.database, *owner)
        answer = store.acknowledge([ack(told, outcome, delay=delay)])
        assert answer.applied == {told.key: self.model.end(told.key, outcome, delay)}

    @invariant()
    def the_tables_are_as_the_model_says(self) -> None:
        self.turn += 1
        rows = {row[0]: (State(row[1]), *row[2:]) for row in self.stage.rows(PRESENT)}
        assert rows == {job: row.seen() for job, row in self.model.jobs.items()}
        nodes = self.stage.rows(
            "SELECT id, nodes.incarnation, counter, status, redis_on, beats.incarnation AS beats"
            " FROM nodes JOIN beats ON node = id"
        )
        assert {tuple(row) for row in nodes} == {
            (node, row.incarnation, row.counter, row.status, row.redis_on, row.incarnation)
            for node, row in self.model.nodes.items()
        }

    def teardown(self) -> None:
        assert check(self.stage.dsn, acknowledged=self.model.jobs) == []


def test_every_step_of_every_life_is_as_the_model_says(postgres_dsn: str) -> None:
    with Stage(postgres_dsn) as stage:
        Lifecycle.stage = stage
        run_state_machine_as_test(
            Lifecycle,
            settings=settings(
                max_examples=60,
                stateful_step_count=60,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
