"""Writes whole job histories by plain SQL, legal or not, as a cluster would have left them."""

from __future__ import annotations

from uuid import UUID, uuid4

import psycopg

NODE = UUID(int=7)
JOB = b"""INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
    backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
    attempt, rank, queued_at, node, incarnation, claim_token)
VALUES (%(id)s, %(state)s::job_state, 'echo', '{}', 'default', 5, %(retries)s, %(bound)s,
    1, 1, 1, now(), %(id)s, 'test', '', now(),
    %(attempt)s, 0, CASE WHEN %(state)s NOT IN ('waiting', 'scheduled') THEN now() END,
    CASE WHEN %(owned)s THEN %(node)s::uuid END, CASE WHEN %(owned)s THEN 1 END,
    CASE WHEN %(state)s = 'running' THEN gen_random_uuid() END)"""
FINISHED = b"""INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries,
    max_attempts, backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent,
    created_at, attempt, finished_at)
VALUES (%(id)s, %(state)s::job_state, 'echo', '{}', 'default', 5, %(retries)s, %(bound)s,
    1, 1, 1, now(), %(id)s, 'test', '', now(), %(attempt)s, now())"""
STEP = b"""INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term)
VALUES (%s, %s, %s, %s::job_state, %s::job_state, 'test', %s)"""
ATTEMPT = b"""INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome)
VALUES (%s, %s, %s, 1, now(), clock_timestamp(), %s)"""
KEY = b"INSERT INTO submissions (idempotency_key, request_hash, job_id) VALUES (%(id)s, '', %(id)s)"


class History:
    """One job's life in the making: `step` and `end` write its history, `settle` the job itself."""

    def __init__(self, connection: psycopg.Connection, retries: int = 1, term: int = 1) -> None:
        self.id = uuid4()
        self.state: str | None = None
        self.attempt = 0
        self._connection = connection
        self._retries = retries
        self._bound = retries + 1
        self._term = term

    def step(self, state: str, event: str = "moved") -> History:
        """The next transition; a claim counts the attempt, a hand-back or a replay raises the bound."""
        self.attempt += state == "running"
        self._bound += event == "handed_back"
        self._bound += (self._retries + 1) * (event == "replayed")
        term = self._term if state == "assigned" else None
        self._connection.execute(STEP, (self.id, self.attempt, event, self.state, state, term))
        self.state = state
        return self

    def start(self) -> History:
        """Assigned, then claimed."""
        return self.step("assigned").step("running")

    def end(self, outcome: str, state: str) -> History:
        """The running attempt ends so, and the job goes on to `state`."""
        self._connection.execute(ATTEMPT, (self.id, self.attempt, NODE, outcome))
        return self.step(state, outcome)

    def settle(self) -> UUID:
        """Writes the job itself, in its last state."""
        ended = self.state in ("succeeded", "dead", "cancelled")
        row = {
            "id": self.id,
            "state": self.state,
            "retries": self._retries,
            "bound": self._bound,
            "attempt": self.attempt,
            "node": NODE,
            "owned": self.state in ("assigned", "running"),
        }
        self._connection.execute(FINISHED if ended else JOB, row)
        self._connection.execute(KEY, row)
        return self.id


def clean_histories(connection: psycopg.Connection) -> dict[str, UUID]:
    """One legal life of each kind, under terms 1 and 2; its name -> job."""
    connection.execute("UPDATE term SET term = 2, holder = 'b'")
    connection.execute("INSERT INTO terms (term, holder, node) VALUES (1, 'a', %s)", (NODE,))
    connection.execute("INSERT INTO terms (term, holder, node) VALUES (2, 'b', %s)", (NODE,))

    def submitted(term: int = 1, retries: int = 1) -> History:
        return History(connection, retries, term).step("queued", "submitted")

    lives = {
        "succeeded": submitted().start().end("succeeded", "succeeded"),
        "retried": submitted()
        .start()
        .end("failed", "scheduled")
        .step("queued")
        .start()
        .end("succeeded", "succeeded"),
        "lost": submitted().start().end("node_lost", "queued").start().end("succeeded", "succeeded"),
        "handed_back": submitted(retries=0)
        .start()
        .step("queued", "handed_back")
        .start()
        .end("succeeded", "succeeded"),
        "replayed": submitted(retries=0)
        .start()
        .end("failed", "dead")
        .step("queued", "replayed")
        .start()
        .end("failed", "dead"),
        "dead": submitted(2, retries=0).start().end("failed", "dead"),
        "cancelled": submitted(2).start().end("cancelled", "cancelled"),
        "running": submitted(2).start(),
        "queued": submitted(2),
    }
    return {name: history.settle() for name, history in lives.items()}
