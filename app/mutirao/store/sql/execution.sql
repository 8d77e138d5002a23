-- name: claim
-- Starts attempts: the only place where `attempt` grows.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now),
chosen AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE state = 'assigned' AND node = %(node)s AND incarnation = %(incarnation)s
      AND attempt < max_attempts
    ORDER BY rank, id LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), claimed AS (
    UPDATE jobs SET state = 'running', attempt = attempt + 1, claim_token = %(token)s, started_at = now
    FROM chosen, clock WHERE jobs.id = chosen.id
    RETURNING jobs.id, attempt, max_attempts, handler, payload, timeout, backoff_base, backoff_cap, rank,
        now - greatest(queued_at, run_at) AS waited
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, node, incarnation)
    SELECT id, attempt, 'claimed', 'assigned', 'running', 'worker', %(node)s, %(incarnation)s FROM claimed
)
SELECT id, attempt, max_attempts, handler, payload::text AS payload, timeout, backoff_base, backoff_cap,
    greatest(extract(epoch FROM waited), 0)::float8 AS waited
FROM claimed ORDER BY rank, id

-- name: claimed_under
-- What an earlier try under this token has claimed, when its answer was lost.
SELECT id, attempt, max_attempts, handler, payload::text AS payload, timeout, backoff_base, backoff_cap,
    greatest(extract(epoch FROM started_at - greatest(queued_at, run_at)), 0)::float8 AS waited
FROM jobs
WHERE state = 'running' AND node = %(node)s AND incarnation = %(incarnation)s AND claim_token = %(token)s
ORDER BY rank, id

-- name: acknowledge
-- Ends attempts of this node's incarnation; whatever is not in the answer was refused.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now, aging FROM cluster),
held AS MATERIALIZED (
    SELECT jobs.id, jobs.attempt, jobs.started_at, outcome, result, error, seconds, delay, output, dropped,
        CASE WHEN jobs.cancel_requested_at IS NOT NULL OR outcome = 'cancelled' THEN 'cancelled'
             WHEN outcome = 'succeeded' THEN 'succeeded'
             WHEN delay IS NULL OR jobs.attempt >= jobs.max_attempts THEN 'dead'
             WHEN delay <= 0 THEN 'queued'
             ELSE 'scheduled' END::job_state AS next
    FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(outcomes)s::text[], %(results)s::text[],
                %(errors)s::text[], %(seconds)s::float8[], %(delays)s::float8[], %(outputs)s::text[],
                %(dropped)s::bigint[])
        AS given (id, attempt, outcome, result, error, seconds, delay, output, dropped)
        JOIN jobs ON jobs.id = given.id
    WHERE jobs.state = 'running' AND jobs.attempt = given.attempt
      AND jobs.node = %(node)s AND jobs.incarnation = %(incarnation)s
    ORDER BY jobs.id FOR UPDATE OF jobs
), moved AS (
    DELETE FROM jobs USING held
    WHERE jobs.id = held.id AND held.next IN ('succeeded', 'dead', 'cancelled')
    -- Handed on from here: joining both lists once more would compare each with each.
    RETURNING jobs.*, held.next, held.result, held.error
), finished AS (
    INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, finished_at, result, error)
    SELECT id, next, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, now, result::jsonb, error::jsonb
    FROM moved, clock
), retried AS (
    UPDATE jobs SET state = held.next, node = NULL, incarnation = NULL, claim_token = NULL,
        assigned_at = NULL, started_at = NULL, progress = NULL, progress_note = NULL,
        run_at = now + make_interval(secs => delay),
        rank = extract(epoch FROM now) + delay - priority * aging,
        queued_at = CASE WHEN held.next = 'queued' THEN now END
    FROM held, clock WHERE jobs.id = held.id AND held.next IN ('scheduled', 'queued')
), ended AS (
    INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome, seconds, error,
        output, output_dropped)
    SELECT id, attempt, %(node)s, %(incarnation)s, started_at, now, outcome, seconds, error::jsonb,
        output, dropped
    FROM held, clock
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, node, incarnation)
    SELECT id, attempt, outcome, 'running', next, 'worker', %(node)s, %(incarnation)s FROM held
)
SELECT id, attempt, next FROM held

-- name: applied_already
-- Which of these attempts ended by this very incarnation with this very outcome: the lost answer was yes.
SELECT given.id, given.attempt
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(outcomes)s::text[]) AS given (id, attempt, outcome)
    JOIN attempts ON attempts.job_id = given.id AND attempts.attempt = given.attempt
WHERE attempts.node = %(node)s AND attempts.incarnation = %(incarnation)s
  AND attempts.outcome = given.outcome

-- name: log_refused
-- Notes acknowledgements that were refused: never applied, always on record.
INSERT INTO audit (job_id, attempt, event, actor, node, incarnation, detail)
SELECT id, attempt, 'ack_refused', 'worker', %(node)s, %(incarnation)s,
       jsonb_build_object('outcome', outcome)
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(outcomes)s::text[]) AS given (id, attempt, outcome)

-- name: running_here
-- What this incarnation runs according to PostgreSQL.
SELECT id, attempt, claim_token AS token FROM jobs
WHERE state = 'running' AND node = %(node)s AND incarnation = %(incarnation)s

-- name: assigned_here
-- How many jobs wait here to be started.
SELECT count(*) AS jobs FROM jobs
WHERE state = 'assigned' AND node = %(node)s AND incarnation = %(incarnation)s

-- name: cancel_requests
-- What somebody wants ended here.
SELECT id, attempt FROM jobs
WHERE state = 'running' AND node = %(node)s AND incarnation = %(incarnation)s
  AND cancel_requested_at IS NOT NULL

-- name: hand_back
-- Returns claimed attempts that never started; the bound grows by one since the number is spent.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now),
held AS MATERIALIZED (
    SELECT jobs.id, jobs.attempt,
        CASE WHEN jobs.cancel_requested_at IS NOT NULL THEN 'cancelled' ELSE 'queued' END::job_state AS next
    FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(tokens)s::uuid[]) AS given (id, attempt, token)
        JOIN jobs ON jobs.id = given.id
    WHERE jobs.state = 'running' AND jobs.attempt = given.attempt AND jobs.claim_token = given.token
      AND jobs.node = %(node)s AND jobs.incarnation = %(incarnation)s
    ORDER BY jobs.id FOR UPDATE OF jobs
), returned AS (
    UPDATE jobs SET state = 'queued', max_attempts = max_attempts + 1, node = NULL, incarnation = NULL,
        claim_token = NULL, assigned_at = NULL, started_at = NULL, queued_at = now
    FROM held, clock WHERE jobs.id = held.id AND held.next = 'queued'
), moved AS (
    DELETE FROM jobs USING held WHERE jobs.id = held.id AND held.next = 'cancelled' RETURNING jobs.*
), finished AS (
    INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, finished_at)
    SELECT id, 'cancelled', handler, payload, queue, priority, max_retries, max_attempts + 1,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, NULL, NULL, cancel_requested_at, now
    FROM moved, clock
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, node, incarnation)
    SELECT id, attempt, 'handed_back', 'running', next, 'worker', %(node)s, %(incarnation)s FROM held
)
SELECT id, attempt FROM held

-- name: note_progress
-- Notes how far running attempts are; a row that somebody else holds can wait until the next time.
WITH held AS MATERIALIZED (
    SELECT jobs.id, fraction, note
    FROM unnest(%(ids)s::uuid[], %(attempts)s::int[], %(fractions)s::float8[], %(notes)s::text[])
        AS given (id, attempt, fraction, note)
        JOIN jobs ON jobs.id = given.id
    WHERE jobs.state = 'running' AND jobs.attempt = given.attempt
      AND jobs.node = %(node)s AND jobs.incarnation = %(incarnation)s
    ORDER BY jobs.id FOR NO KEY UPDATE OF jobs SKIP LOCKED
)
UPDATE jobs SET progress = fraction, progress_note = nullif(note, '') FROM held WHERE jobs.id = held.id
RETURNING jobs.id, attempt

-- name: roll_up
-- Adds this node's outcomes to their minute.
INSERT INTO outcome_minutes AS kept (minute, handler, outcome, count, seconds)
SELECT date_trunc('minute', cluster_now()), handler, outcome, count, seconds
FROM unnest(%(handlers)s::text[], %(outcomes)s::text[], %(counts)s::bigint[], %(seconds)s::float8[])
    AS given (handler, outcome, count, seconds)
ORDER BY handler, outcome
ON CONFLICT (minute, handler, outcome)
DO UPDATE SET count = kept.count + excluded.count, seconds = kept.seconds + excluded.seconds
