-- name: reserve_keys
-- Takes the idempotency keys that are new, in key order so that two batches cannot deadlock.
INSERT INTO submissions (idempotency_key, request_hash, job_id)
SELECT key, hash, id
FROM unnest(%(keys)s::text[], %(hashes)s::bytea[], %(ids)s::uuid[]) AS given (key, hash, id)
ORDER BY key
ON CONFLICT DO NOTHING
RETURNING idempotency_key AS key

-- name: known_keys
-- What earlier submissions under these keys became.
SELECT idempotency_key AS key, request_hash AS hash, job_id AS id FROM submissions
WHERE idempotency_key = ANY(%(keys)s::text[])

-- name: insert_jobs
-- Stores jobs as queued, or as scheduled when their time has not come; one already there is left alone.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now, aging FROM cluster),
stored AS (
    INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base,
                      backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, contract,
                      created_at, rank, queued_at)
    SELECT id, CASE WHEN run_at > now THEN 'scheduled' ELSE 'queued' END::job_state,
           handler, payload::jsonb, queue, priority, max_retries, max_retries + 1, backoff_base,
           backoff_cap, timeout, coalesce(run_at, now), key, submitted_by, traceparent, contract, now,
           extract(epoch FROM greatest(run_at, now)) - priority * aging,
           CASE WHEN run_at > now THEN NULL ELSE now END
    FROM unnest(%(ids)s::uuid[], %(handlers)s::text[], %(payloads)s::text[], %(queues)s::text[],
                %(priorities)s::smallint[], %(max_retries)s::int[], %(backoff_bases)s::float8[],
                %(backoff_caps)s::float8[], %(timeouts)s::float8[], %(run_ats)s::timestamptz[],
                %(keys)s::text[], %(submitted_bys)s::text[], %(traceparents)s::text[], %(contracts)s::int[])
        AS given (id, handler, payload, queue, priority, max_retries, backoff_base, backoff_cap, timeout,
                  run_at, key, submitted_by, traceparent, contract),
        clock
    ON CONFLICT (id) DO NOTHING
    RETURNING id, state, submitted_by
), logged AS (
    INSERT INTO audit (job_id, attempt, event, to_state, actor)
    SELECT id, 0, 'submitted', state, submitted_by FROM stored
)
SELECT id, state FROM stored

-- name: states
-- Where these jobs are now, live or finished.
SELECT id, state FROM jobs WHERE id = ANY(%(ids)s::uuid[])
UNION ALL
SELECT id, state FROM finished_jobs WHERE id = ANY(%(ids)s::uuid[])

-- name: flush
-- Writes a record that the commit must flush (and its standbys confirm): a yes that wrote nothing is no yes.
SELECT pg_logical_emit_message(true, 'mutirao', '')

-- name: hold_jobs
-- Locks live jobs in id order, so that the statements that follow see them as they are.
SELECT id, state FROM jobs WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR UPDATE

-- name: cancel_unstarted
-- Ends what has not been started.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now),
moved AS (
    DELETE FROM jobs WHERE id = ANY(%(ids)s::uuid[]) AND state <> 'running' RETURNING *
), finished AS (
    INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, finished_at)
    SELECT id, 'cancelled', handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, now, now
    FROM moved, clock
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor)
    SELECT id, attempt, 'cancelled', state, 'cancelled', %(actor)s FROM moved
)
SELECT id FROM moved

-- name: request_cancel
-- Asks for the end of what is running; it wins in every way out of running.
WITH asked AS (
    UPDATE jobs SET cancel_requested_at = cluster_now()
    WHERE id = ANY(%(ids)s::uuid[]) AND state = 'running' AND cancel_requested_at IS NULL
    RETURNING id, attempt
), logged AS (
    INSERT INTO audit (job_id, attempt, event, actor)
    SELECT id, attempt, 'cancel_requested', %(actor)s FROM asked
)
SELECT id, node FROM jobs WHERE id = ANY(%(ids)s::uuid[]) AND state = 'running'

-- name: replay
-- Moves dead letters back to the queue with their bound raised by a full set of attempts; `attempt` goes on.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now, aging FROM cluster),
moved AS (
    DELETE FROM finished_jobs
    -- As text: else the planner may walk the whole index of dead letters.
    WHERE id = ANY(%(ids)s::uuid[]) AND state::text = 'dead' AND discarded_at IS NULL
      AND (%(attempt)s::int IS NULL OR attempt = %(attempt)s::int)
    RETURNING *
), stored AS (
    INSERT INTO jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts, backoff_base,
        backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, rank, queued_at)
    SELECT id, 'queued', handler, payload, queue, priority, max_retries, attempt + max_retries + 1,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, extract(epoch FROM now) - priority * aging, now
    FROM moved, clock
    RETURNING id, attempt, max_attempts
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, detail)
    SELECT id, attempt, 'replayed', 'dead', 'queued', %(actor)s,
           jsonb_build_object('max_attempts', max_attempts)
    FROM stored
)
SELECT id FROM stored

-- name: discard
-- Puts dead letters aside: they stay readable, and no list or replay offers them again.
WITH discarded AS (
    UPDATE finished_jobs SET discarded_at = cluster_now()
    -- As text: as above.
    WHERE id = ANY(%(ids)s::uuid[]) AND state::text = 'dead' AND discarded_at IS NULL
      AND (%(attempt)s::int IS NULL OR attempt = %(attempt)s::int)
    RETURNING id, attempt
), logged AS (
    INSERT INTO audit (job_id, attempt, event, actor)
    SELECT id, attempt, 'discarded', %(actor)s FROM discarded
)
SELECT id FROM discarded

-- name: forget_keys
-- Lets go of idempotency keys older than the time they are kept for, some at a time.
DELETE FROM submissions WHERE idempotency_key IN (
    SELECT idempotency_key FROM submissions
    WHERE created_at < cluster_now() - make_interval(secs => %(kept)s) ORDER BY created_at LIMIT %(limit)s
)
