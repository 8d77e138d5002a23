"""Jobs, nodes and terms as they should be, in plain Python: what every step must answer and leave behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from mutirao.domain.job import Outcome, State
from mutirao.store.database import TermHeld

Owner = tuple[UUID, int]
Attempt = tuple[UUID, int]


@dataclass
class Job:
    """One job; `owner` is (node, incarnation) while it is given to a node."""

    state: State
    retries: int
    bound: int
    attempt: int = 0
    owner: Owner | None = None
    token: UUID | None = None
    cancel: bool = False
    discarded: bool = False
    contract: int = 0

    def seen(self) -> tuple[object, ...]:
        """What the tables show of it."""
        node, incarnation = self.owner or (None, None)
        return (
            self.state,
            self.attempt,
            self.bound,
            node,
            incarnation,
            self.token,
            self.cancel,
            self.discarded,
            self.contract,
        )

    def move(self, state: State) -> None:
        """Leaves its node, if it has one, for `state`."""
        self.state, self.owner, self.token = state, None, None


@dataclass
class NodeRow:
    """A node as it stands."""

    incarnation: int
    counter: int
    status: str = "live"
    redis_on: bool = True


@dataclass
class Model:
    """The whole cluster's truth."""

    jobs: dict[UUID, Job] = field(default_factory=dict)
    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    keys: dict[str, tuple[bytes, UUID]] = field(default_factory=dict)
    ends: dict[Attempt, tuple[Owner, Outcome]] = field(default_factory=dict)
    office: TermHeld | None = None

    def among(self, wanted: Callable[[Job], bool]) -> dict[UUID, Job]:
        """The jobs that are so."""
        return {job: row for job, row in self.jobs.items() if wanted(row)}

    def assigned_to(self, owner: Owner) -> dict[UUID, Job]:
        """What this incarnation was given and has not started."""
        return self.among(lambda job: job.state is State.ASSIGNED and job.owner == owner)

    def current(self, owner: Owner) -> bool:
        """True while the node's row names this incarnation."""
        node, incarnation = owner
        return self.nodes[node].incarnation == incarnation

    def runs(self, key: Attempt, owner: Owner) -> bool:
        """True while this very attempt is this incarnation's."""
        job = self.jobs[key[0]]
        return job.state is State.RUNNING and job.attempt == key[1] and job.owner == owner

    def end(self, key: Attempt, outcome: Outcome, delay: float | None) -> State:
        """An attempt's end is applied; returns where it led."""
        job = self.jobs[key[0]]
        assert job.owner is not None
        self.ends[key] = (job.owner, outcome)
        job.move(_after(job, outcome, delay))
        return job.state

    def give_back(self, node: UUID) -> int:
        """All that belongs to the node's past moves on; returns how many jobs."""
        now = self.nodes[node].incarnation
        gone = self.among(lambda job: job.owner is not None and job.owner[0] == node and job.owner[1] < now)
        for job, row in gone.items():
            if row.state is State.ASSIGNED:
                row.move(State.QUEUED)
            else:
                self.end((job, row.attempt), Outcome.NODE_LOST, 0.0)
        return len(gone)

    def hand_back(self, job: UUID) -> None:
        """A claimed attempt that never started: its number is spent, so the bound grows."""
        row = self.jobs[job]
        row.bound += 1
        row.move(State.CANCELLED if row.cancel else State.QUEUED)

    def replay(self, job: UUID) -> bool:
        """True for a dead letter, which is queued again with a full set of attempts."""
        row = self.jobs[job]
        if row.state is not State.DEAD or row.discarded:
            return False
        row.bound, row.cancel = row.attempt + row.retries + 1, False
        row.move(State.QUEUED)
        return True

    def requeue(self, jobs: Iterable[UUID]) -> None:
        """Back to the queue, nothing else changed."""
        for job in jobs:
            self.jobs[job].move(State.QUEUED)


def _after(job: Job, outcome: Outcome, delay: float | None) -> State:
    if job.cancel or outcome is Outcome.CANCELLED:
        return State.CANCELLED
    if outcome is Outcome.SUCCEEDED:
        return State.SUCCEEDED
    if delay is None or job.attempt >= job.bound:
        return State.DEAD
    return State.QUEUED if delay <= 0 else State.SCHEDULED
