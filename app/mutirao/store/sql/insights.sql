-- name: job
-- One job by id, live or finished.
SELECT j.id, j.state::text AS state, j.handler, j.payload::text AS payload, j.queue, j.priority, j.max_retries,
       j.max_attempts, j.backoff_base, j.backoff_cap, j.timeout, j.run_at, j.idempotency_key, j.submitted_by,
       j.traceparent, j.created_at, j.attempt, j.node, n.name AS node_name, j.incarnation, j.queued_at,
       j.assigned_at, j.started_at, j.cancel_requested_at, j.progress::float8 AS progress,
       NULL::timestamptz AS finished_at, NULL::text AS result, NULL::text AS error,
       NULL::timestamptz AS discarded_at
FROM jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = %(id)s
UNION ALL
SELECT j.id, j.state::text, j.handler, j.payload::text, j.queue, j.priority, j.max_retries,
       j.max_attempts, j.backoff_base, j.backoff_cap, j.timeout, j.run_at, j.idempotency_key, j.submitted_by,
       j.traceparent, j.created_at, j.attempt, j.node, n.name, NULL, NULL,
       NULL, j.started_at, j.cancel_requested_at, NULL,
       j.finished_at, j.result::text, j.error::text,
       j.discarded_at
FROM finished_jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = %(id)s

-- name: attempts
-- The ended attempts of one job, oldest first.
SELECT a.attempt, a.node, n.name AS node_name, a.incarnation, a.started_at, a.ended_at, a.outcome, a.seconds,
       a.error::text AS error
FROM attempts a LEFT JOIN nodes n ON n.id = a.node
WHERE a.job_id = %(id)s
ORDER BY a.attempt, a.ended_at

-- name: audit
-- The history of one job, oldest first; one job's transitions follow each other, so their ids are in order.
SELECT at, attempt, event, from_state::text AS from_state, to_state::text AS to_state, actor, term, node,
       incarnation, detail::text AS detail
FROM audit
WHERE job_id = %(id)s
ORDER BY id

-- name: live_jobs
-- Live jobs below the cursor, newest first.
SELECT j.id, j.state::text AS state, j.cancel_requested_at IS NOT NULL AS cancelling, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name AS node_name, j.created_at, j.run_at,
       j.started_at, NULL::timestamptz AS finished_at
FROM jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id < %(below)s
  AND (%(state)s::job_state IS NULL OR j.state = %(state)s::job_state)
  AND (%(handler)s::text IS NULL OR j.handler = %(handler)s::text)
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
ORDER BY j.id DESC
LIMIT %(limit)s

-- name: finished_jobs
-- Finished jobs below the cursor, newest first.
SELECT j.id, j.state::text AS state, false AS cancelling, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name AS node_name, j.created_at, j.run_at,
       j.started_at, j.finished_at
FROM finished_jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id < %(below)s
  AND (%(state)s::job_state IS NULL OR j.state = %(state)s::job_state)
  AND (%(handler)s::text IS NULL OR j.handler = %(handler)s::text)
  AND (%(queue)s::text IS NULL OR j.queue = %(queue)s::text)
ORDER BY j.id DESC
LIMIT %(limit)s

-- name: dead_letters
-- Dead jobs that wait for a decision, the latest first, below the cursor (finished_at, id).
SELECT id, handler, queue, priority, attempt, max_attempts, created_at, finished_at, error::text AS error
FROM finished_jobs
WHERE state = 'dead' AND discarded_at IS NULL
  AND (finished_at, id) < (%(before)s::timestamptz, %(below)s::uuid)
  AND (%(handler)s::text IS NULL OR handler = %(handler)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
ORDER BY finished_at DESC, id DESC
LIMIT %(limit)s

-- name: count_dead_letters
-- How many dead jobs wait for a decision, counted up to the limit so that a page never scans them all.
SELECT count(*) AS count
FROM (SELECT 1 FROM finished_jobs WHERE state = 'dead' AND discarded_at IS NULL LIMIT %(limit)s) AS counted

-- name: nodes
-- Every node, with its role and the age of its last beat by this server's clock.
SELECT n.id, n.name, n.incarnation, n.status, n.url, n.slots, n.version, n.registered_at, b.capacity, b.redis_on,
       greatest(extract(epoch FROM clock_timestamp() - b.beaten_at), 0)::float8 AS beat_age,
       coalesce(n.status IN ('live', 'draining')
                AND split_part(t.holder, ':', 1) = n.id::text
                AND split_part(t.holder, ':', 2) = n.incarnation::text, false) AS leads
FROM nodes n
LEFT JOIN beats b ON b.node = n.id AND b.incarnation = n.incarnation
CROSS JOIN term t
ORDER BY n.name, n.id

-- name: term
-- The term and its holder.
SELECT term, holder FROM term

-- name: counts
-- Jobs by state, as last counted.
SELECT state::text AS state, count, counted_at FROM state_counts

-- name: outcomes
-- The attempts that ended in the last hour, by outcome.
SELECT outcome, sum(count)::bigint AS count, sum(seconds)::float8 AS seconds
FROM outcome_minutes
WHERE minute > cluster_now() - interval '1 hour'
GROUP BY outcome

-- name: contracts
-- One contract a handler: of those that live nodes carry (else of all) the one published last.
SELECT DISTINCT ON (c.handler) c.handler, c.fingerprint, c.description, c.payload_schema::text AS payload_schema,
       c.result_schema::text AS result_schema, c.defaults::text AS defaults
FROM contracts c
ORDER BY c.handler,
         EXISTS (SELECT 1 FROM node_contracts k JOIN nodes n ON n.id = k.node
                 WHERE k.handler = c.handler AND k.fingerprint = c.fingerprint
                   AND n.status IN ('live', 'draining')) DESC,
         c.published_at DESC, c.fingerprint

-- name: ping
-- Proves that this server answers and accepts writes.
SELECT NOT pg_is_in_recovery() AS writable
