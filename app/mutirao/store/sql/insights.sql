-- name: job
-- One job by id, live or finished.
SELECT j.id, j.state::text AS state, j.handler, j.payload::text AS payload, j.queue, j.priority, j.max_retries,
       j.max_attempts, j.backoff_base, j.backoff_cap, j.timeout, j.run_at, j.idempotency_key, j.submitted_by,
       j.traceparent, j.created_at, j.attempt, j.node, n.name AS node_name, j.incarnation, j.queued_at,
       j.assigned_at, j.started_at, j.cancel_requested_at, j.progress::text::float8 AS progress,
       j.progress_note, j.contract, EXISTS (SELECT FROM served WHERE served.contract = j.contract) AS served,
       NULL::timestamptz AS finished_at, NULL::text AS result, NULL::text AS error,
       NULL::timestamptz AS discarded_at
FROM jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = %(id)s
UNION ALL
SELECT j.id, j.state::text, j.handler, j.payload::text, j.queue, j.priority, j.max_retries,
       j.max_attempts, j.backoff_base, j.backoff_cap, j.timeout, j.run_at, j.idempotency_key, j.submitted_by,
       j.traceparent, j.created_at, j.attempt, j.node, n.name, NULL, NULL,
       NULL, j.started_at, j.cancel_requested_at, NULL,
       NULL, j.contract, EXISTS (SELECT FROM served WHERE served.contract = j.contract),
       j.finished_at, j.result::text, j.error::text,
       j.discarded_at
FROM finished_jobs j LEFT JOIN nodes n ON n.id = j.node
WHERE j.id = %(id)s

-- name: attempts
-- The ended attempts of one job, oldest first; of much output, only the end of the older attempts'.
SELECT a.attempt, a.node, n.name AS node_name, a.incarnation, a.started_at, a.ended_at, a.outcome, a.seconds,
       a.error::text AS error,
       CASE WHEN a.shown THEN a.output ELSE right(a.output, %(least)s::int) END AS output,
       a.output_dropped + CASE WHEN a.shown THEN 0
           ELSE octet_length(a.output) - octet_length(right(a.output, %(least)s::int)) END AS output_dropped
FROM (SELECT *, output IS NULL OR sum(octet_length(output)) OVER newest <= %(most)s AS shown
      FROM attempts WHERE job_id = %(id)s
      WINDOW newest AS (ORDER BY attempt DESC, ended_at DESC)) AS a
LEFT JOIN nodes n ON n.id = a.node
ORDER BY a.attempt, a.ended_at

-- name: audit
-- The history of one job, oldest first; one job's transitions follow each other, so their ids are in order.
SELECT a.id, a.at, a.job_id, a.attempt, a.event, a.from_state::text AS from_state, a.to_state::text AS to_state,
       a.actor, a.term, a.node, n.name AS node_name, a.incarnation, a.detail::text AS detail
FROM audit a LEFT JOIN nodes n ON n.id = a.node
WHERE a.job_id = %(id)s
ORDER BY a.id + 0 -- else the planner may walk the index of the whole log

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
-- Live jobs by state, as last counted.
SELECT state::text AS state, count, counted_at FROM state_counts WHERE state <> 'dead'

-- name: outcomes
-- The attempts that ended in the last hour, by outcome.
SELECT outcome, sum(count)::bigint AS count, sum(seconds)::float8 AS seconds
FROM outcome_minutes
WHERE minute > cluster_now() - interval '1 hour'
GROUP BY outcome

-- name: contracts
-- One contract a handler: of those that live nodes serve (else that any ever served) the one published last.
WITH standing AS (
    SELECT contracts.*,
        ARRAY(SELECT name FROM served JOIN nodes ON nodes.id = served.node
              WHERE served.contract = contracts.id ORDER BY name) AS nodes,
        published_at > '-infinity' AS accepted
    FROM contracts
)
SELECT DISTINCT ON (handler) id, handler, fingerprint, description, accepted, nodes,
    payload_schema::text AS payload_schema, result_schema::text AS result_schema, defaults::text AS defaults,
    (SELECT coalesce(jsonb_agg(jsonb_build_object('node', n.name, 'message', k.refusal) ORDER BY n.name), '[]')
     FROM node_contracts k JOIN nodes n ON n.id = k.node AND n.status IN ('live', 'draining')
     WHERE k.handler = standing.handler AND k.refusal IS NOT NULL) AS refusals,
    (SELECT coalesce(sum(jobs), 0)::bigint FROM unserved WHERE unserved.handler = standing.handler) AS unserved_jobs
FROM standing
ORDER BY handler, nodes = '{}', accepted DESC, published_at DESC, id DESC

-- name: ping
-- Proves that this server answers and accepts writes.
SELECT NOT pg_is_in_recovery() AS writable
