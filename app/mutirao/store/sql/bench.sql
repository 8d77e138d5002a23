-- name: create_floor
-- Rows shaped like jobs, with all that a job's row is checked against and found by.
CREATE TABLE bench_floor (LIKE jobs INCLUDING ALL) WITH (fillfactor = 60)

-- name: create_narrow_floor
-- Three columns and one index: what no design over PostgreSQL can do without.
CREATE TABLE bench_narrow_floor (id uuid PRIMARY KEY, state smallint NOT NULL, payload text NOT NULL)
WITH (fillfactor = 60)

-- name: drop_floor
-- Nothing is left of it.
DROP TABLE IF EXISTS bench_floor, bench_narrow_floor

-- name: analyze_floor
-- As autovacuum would, before the updates.
VACUUM ANALYZE bench_floor, bench_narrow_floor

-- name: copy_floor
-- The fastest way in for a row shaped like a job.
COPY bench_floor (id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base,
    backoff_cap, timeout, run_at, submitted_by, traceparent, created_at, rank, queued_at) FROM STDIN

-- name: copy_narrow_floor
-- The fastest way in.
COPY bench_narrow_floor (id, state, payload) FROM STDIN

-- name: floor_pass_1
-- What an assignment changes of one batch of known ids, and nothing else of it.
UPDATE bench_floor SET state = 'assigned', node = id, incarnation = 1, assigned_at = clock_timestamp()
WHERE id = ANY(%(ids)b)

-- name: floor_pass_2
-- What a start changes.
UPDATE bench_floor SET state = 'running', attempt = attempt + 1, claim_token = id, started_at = clock_timestamp()
WHERE id = ANY(%(ids)b)

-- name: floor_pass_3
-- What an end changes at least, if the row stays where it is.
UPDATE bench_floor SET state = 'queued', node = NULL, incarnation = NULL, claim_token = NULL
WHERE id = ANY(%(ids)b)

-- name: narrow_floor_pass
-- One pass over one batch of known ids.
UPDATE bench_narrow_floor SET state = state + 1 WHERE id = ANY(%(ids)b)

-- name: commit_floor
-- One durable row.
INSERT INTO bench_narrow_floor (id, state, payload) VALUES (gen_random_uuid(), 0, '')

-- name: members
-- How many nodes are live, and whether one of them is in office.
SELECT count(*) AS live, coalesce(bool_or(starts_with(holder, id || ':' || incarnation || ':')), false) AS led
FROM nodes, term WHERE status = 'live'

-- name: live
-- Jobs that have not ended.
SELECT count(*) AS count FROM jobs

-- name: drained
-- How long the jobs of a handler took together, from the first claim to the last acknowledged end.
SELECT count(*) AS jobs, extract(epoch FROM max(finished_at) - min(started_at))::float8 AS seconds
FROM finished_jobs WHERE handler = %(handler)s

-- name: starts
-- When a job was claimed, and when its handler says it was started: seconds since the epoch.
SELECT id, extract(epoch FROM started_at)::float8 AS claimed, (result::text)::float8 AS started
FROM finished_jobs WHERE id = ANY(%(ids)s)

-- name: outcome
-- What became of every job, from each table that tells it.
SELECT (SELECT count(*) FROM jobs) AS live,
       (SELECT count(*) FROM finished_jobs) AS finished,
       (SELECT count(DISTINCT id) FROM finished_jobs WHERE state = 'succeeded') AS succeeded,
       (SELECT count(*) FROM attempts WHERE outcome = 'succeeded') AS attempts_succeeded,
       (SELECT count(*) FROM audit WHERE to_state = 'queued' AND from_state IS NULL) AS audited_submissions,
       (SELECT count(*) FROM audit WHERE to_state = 'succeeded') AS audited_successes
