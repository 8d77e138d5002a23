"""Thousands of jobs in every state, with their histories, written by plain SQL in a second or two."""

from __future__ import annotations

import psycopg

ROWS = 20_000

_NODES = b"""
INSERT INTO nodes (id, name, incarnation, status, slots)
SELECT lpad(to_hex(n), 32, '0')::uuid, 'node-' || n, 1, 'live', 4 FROM generate_series(1, 8) AS n;
INSERT INTO beats (node, incarnation, counter) SELECT id, 1, 1 FROM nodes;
INSERT INTO contracts (handler, fingerprint, payload_schema, result_schema, defaults)
VALUES ('echo', 'f', '{}', '{}', '{}');
INSERT INTO node_contracts (node, handler, fingerprint) SELECT id, 'echo', 'f' FROM nodes;
"""
_LIVE = b"""
INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base,
    backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at, attempt, rank,
    queued_at, node, incarnation, claim_token)
SELECT gen_random_uuid(), state, 'echo', '{"message": "hi"}', 'default', n %% 10, 3, 4, 1, 300, 300, now(),
    'live-' || n, '', '', now(), CASE WHEN state = 'running' THEN 1 ELSE 0 END, n,
    CASE WHEN state <> 'scheduled' THEN now() END,
    CASE WHEN given THEN lpad(to_hex(1 + n %% 8), 32, '0')::uuid END, CASE WHEN given THEN 1 END,
    CASE WHEN state = 'running' THEN gen_random_uuid() END
FROM generate_series(1, %(rows)s) AS n,
    LATERAL (SELECT ('{queued,queued,queued,scheduled,assigned,running}'::job_state[])[1 + n %% 6])
        AS one (state),
    LATERAL (SELECT state IN ('assigned', 'running')) AS two (given)
"""
_FINISHED = b"""
INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
    backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
    attempt, finished_at)
SELECT gen_random_uuid(), CASE WHEN n %% 4 = 0 THEN 'dead' ELSE 'succeeded' END::job_state, 'echo', '{}',
    'default', 5, 3, 4, 1, 300, 300, now(), 'finished-' || n, '', '', now(), 1, now()
FROM generate_series(1, %(rows)s) AS n
"""
_HISTORY = b"""
INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor)
SELECT id, 0, event, before, after, 'test'
FROM (SELECT id FROM jobs UNION ALL SELECT id FROM finished_jobs) AS every,
    (VALUES ('submitted', NULL, 'queued'::job_state), ('assigned', 'queued'::job_state, 'assigned'))
        AS step (event, before, after);
INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome)
SELECT id, 1, lpad('1', 32, '0')::uuid, 1, now(), now(), 'succeeded' FROM finished_jobs;
INSERT INTO submissions (idempotency_key, request_hash, job_id)
SELECT idempotency_key, ''::bytea, id FROM jobs
UNION ALL SELECT idempotency_key, '', id FROM finished_jobs;
"""
_TABLES = b"""SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'mutirao'::regnamespace"""


def gather(dsn: str, *, counted: bool) -> None:
    """Fills the tables; `counted` decides whether the statistics know of it or still see them empty."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = mutirao")
        for (table,) in connection.execute(_TABLES).fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        connection.execute("ANALYZE")
        connection.execute(_NODES)
        for statement in (_LIVE, _FINISHED):
            connection.execute(statement, {"rows": ROWS})
        connection.execute(_HISTORY)
        if counted:
            connection.execute("ANALYZE")
