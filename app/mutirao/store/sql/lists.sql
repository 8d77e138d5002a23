-- name: one_view
-- All that follows in the transaction sees the tables as they are at its first question.
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ

-- name: live_jobs
-- Live jobs below the cursor that fit the filter, newest first, among the 10,000 next ones.
SELECT j.id, j.state::text AS state, j.cancel_requested_at IS NOT NULL AS cancelling, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name AS node_name, j.created_at, j.run_at,
       j.started_at, NULL::timestamptz AS finished_at
FROM (
    SELECT * FROM (
        SELECT * FROM jobs WHERE id < %(below)s AND id >= %(oldest)s ORDER BY id DESC LIMIT 10000
    ) AS next
    WHERE (%(states)s::text[] IS NULL OR state::text = ANY(%(states)s::text[]))
      AND (%(handler)s::text IS NULL OR handler = %(handler)s::text)
      AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
      AND (%(created_after)s::timestamptz IS NULL OR created_at >= %(created_after)s::timestamptz)
      AND (%(created_before)s::timestamptz IS NULL OR created_at < %(created_before)s::timestamptz)
    ORDER BY id DESC LIMIT %(limit)s
) AS j LEFT JOIN nodes n ON n.id = j.node
ORDER BY j.id DESC

-- name: live_jobs_floor
-- The last of the 10,000 next live jobs; no row when there are fewer.
SELECT id FROM jobs WHERE id < %(below)s AND id >= %(oldest)s ORDER BY id DESC OFFSET 9999 LIMIT 1

-- name: finished_jobs
-- Finished jobs below the cursor that fit the filter, newest first, among the 10,000 next ones.
SELECT j.id, j.state::text AS state, false AS cancelling, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name AS node_name, j.created_at, j.run_at,
       j.started_at, j.finished_at
FROM (
    SELECT * FROM (
        SELECT * FROM finished_jobs WHERE id < %(below)s AND id >= %(oldest)s ORDER BY id DESC LIMIT 10000
    ) AS next
    WHERE (%(states)s::text[] IS NULL OR state::text = ANY(%(states)s::text[]))
      AND (%(handler)s::text IS NULL OR handler = %(handler)s::text)
      AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
      AND (%(created_after)s::timestamptz IS NULL OR created_at >= %(created_after)s::timestamptz)
      AND (%(created_before)s::timestamptz IS NULL OR created_at < %(created_before)s::timestamptz)
    ORDER BY id DESC LIMIT %(limit)s
) AS j LEFT JOIN nodes n ON n.id = j.node
ORDER BY j.id DESC

-- name: finished_jobs_floor
-- The last of the 10,000 next finished jobs; no row when there are fewer.
SELECT id FROM finished_jobs WHERE id < %(below)s AND id >= %(oldest)s ORDER BY id DESC OFFSET 9999 LIMIT 1

-- name: summaries
-- The jobs with these ids, live or finished.
SELECT j.id, j.state::text AS state, j.cancel_requested_at IS NOT NULL AS cancelling, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name AS node_name, j.created_at, j.run_at,
       j.started_at, NULL::timestamptz AS finished_at
FROM jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = ANY(%(ids)s::uuid[])
UNION ALL
SELECT j.id, j.state::text, false, j.handler, j.queue,
       j.priority, j.attempt, j.max_attempts, j.node, n.name, j.created_at, j.run_at,
       j.started_at, j.finished_at
FROM finished_jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = ANY(%(ids)s::uuid[])

-- name: dead_letters
-- Dead jobs that wait for a decision and fit the filter, the latest first, among the 10,000 next ones.
SELECT id, handler, queue, priority, attempt, max_attempts, created_at, finished_at, error::text AS error
FROM (
    SELECT * FROM finished_jobs
    WHERE state = 'dead' AND discarded_at IS NULL
      AND (finished_at, id) < (%(before)s::timestamptz, %(below)s::uuid)
    ORDER BY finished_at DESC, id DESC LIMIT 10000
) AS next
WHERE (%(handler)s::text IS NULL OR handler = %(handler)s::text)
  AND (%(queue)s::text IS NULL OR queue = %(queue)s::text)
  AND (%(error_type)s::text IS NULL OR error ->> 'type' = %(error_type)s::text)
ORDER BY finished_at DESC, id DESC LIMIT %(limit)s

-- name: dead_letters_floor
-- The last of the 10,000 next dead letters; no row when there are fewer.
SELECT finished_at, id FROM finished_jobs
WHERE state = 'dead' AND discarded_at IS NULL
  AND (finished_at, id) < (%(before)s::timestamptz, %(below)s::uuid)
ORDER BY finished_at DESC, id DESC OFFSET 9999 LIMIT 1

-- name: audit
-- The audit log below the cursor, as far as it fits the filter, newest first, among the 10,000 next entries.
SELECT a.id, a.at, a.job_id, a.attempt, a.event, a.from_state::text AS from_state, a.to_state::text AS to_state,
       a.actor, a.term, a.node, n.name AS node_name, a.incarnation, a.detail::text AS detail
FROM (
    SELECT * FROM (SELECT * FROM audit WHERE id < %(below)s ORDER BY id DESC LIMIT 10000) AS next
    WHERE (%(event)s::text IS NULL OR event = %(event)s::text)
      AND (%(actor)s::text IS NULL OR actor = %(actor)s::text)
      AND (%(node)s::text IS NULL
           OR node = ANY(ARRAY(SELECT id FROM nodes WHERE id::text = %(node)s::text OR name = %(node)s::text)))
    ORDER BY id DESC LIMIT %(limit)s
) AS a LEFT JOIN nodes n ON n.id = a.node
ORDER BY a.id DESC

-- name: audit_floor
-- The last of the 10,000 next entries; no row when there are fewer.
SELECT id FROM audit WHERE id < %(below)s ORDER BY id DESC OFFSET 9999 LIMIT 1

-- name: audit_of_job
-- One job's entries below the cursor, as far as they fit the filter, newest first.
-- `id + 0`: else the planner may walk the index of the whole log.
SELECT a.id, a.at, a.job_id, a.attempt, a.event, a.from_state::text AS from_state, a.to_state::text AS to_state,
       a.actor, a.term, a.node, n.name AS node_name, a.incarnation, a.detail::text AS detail
FROM audit a LEFT JOIN nodes n ON n.id = a.node
WHERE a.job_id = %(job_id)s AND a.id + 0 < %(below)s
  AND (%(event)s::text IS NULL OR a.event = %(event)s::text)
  AND (%(actor)s::text IS NULL OR a.actor = %(actor)s::text)
  AND (%(node)s::text IS NULL OR n.id::text = %(node)s::text OR n.name = %(node)s::text)
ORDER BY a.id + 0 DESC LIMIT %(limit)s
