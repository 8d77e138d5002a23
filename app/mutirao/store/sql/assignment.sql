-- name: rooms
-- The live nodes, what each wants to hold, holds and serves.
SELECT nodes.id AS node, nodes.incarnation, nodes.slots, beats.capacity, coalesce(held.load, 0)::int AS load,
    ARRAY(SELECT contract FROM served WHERE served.node = nodes.id) AS contracts
FROM nodes JOIN beats ON beats.node = nodes.id AND beats.incarnation = nodes.incarnation
    LEFT JOIN (
        SELECT node, count(*) AS load FROM jobs WHERE node IS NOT NULL GROUP BY node
    ) AS held ON held.node = nodes.id
WHERE nodes.status = 'live' ORDER BY nodes.id

-- name: candidates
-- The heads of the lanes, one for each contract, each as long as there is room for it; of all of them as far as
-- the shortest reaches that goes on behind the limit, so that nothing ranks before what is seen.
WITH heads AS MATERIALIZED (
    SELECT head.id, head.rank, lane.contract
    FROM unnest(%(contracts)s::int[], %(rooms)s::int[]) AS lane (contract, room)
        CROSS JOIN LATERAL (
            SELECT id, rank FROM jobs
            WHERE node IS NULL AND queued_at IS NOT NULL AND jobs.contract = lane.contract
            ORDER BY rank, id LIMIT least(lane.room, %(limit)s)
        ) AS head
), cut AS (
    SELECT max(rank) AS reach FROM heads GROUP BY contract HAVING count(*) = %(limit)s
)
SELECT id, contract FROM heads
WHERE rank <= coalesce((SELECT min(reach) FROM cut), 'infinity')
ORDER BY rank, id

-- name: hold_nodes
-- Keeps these nodes' incarnations from changing until the end of the transaction.
SELECT id FROM nodes WHERE id = ANY(%(nodes)s::uuid[]) ORDER BY id FOR SHARE

-- name: assign
-- Gives queued jobs to nodes that still are what the plan saw; what others hold locked is planned again.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now),
chosen AS MATERIALIZED (
    SELECT jobs.id AS job, nodes.id AS node, nodes.incarnation
    FROM unnest(%(jobs)s::uuid[], %(nodes)s::uuid[], %(incarnations)s::bigint[], %(contracts)s::int[])
             AS plan (job, node, incarnation, contract)
        JOIN nodes ON nodes.id = plan.node AND nodes.incarnation = plan.incarnation AND nodes.status = 'live'
        -- Still under that contract: an incarnation never ceases to serve one, but a job may have found another.
        JOIN jobs ON jobs.id = plan.job AND jobs.state = 'queued' AND jobs.contract = plan.contract
    ORDER BY jobs.id FOR UPDATE OF jobs SKIP LOCKED
), given AS (
    UPDATE jobs SET state = 'assigned', node = chosen.node, incarnation = chosen.incarnation, assigned_at = now
    FROM chosen, clock WHERE jobs.id = chosen.job
    RETURNING jobs.id, jobs.attempt, jobs.node, jobs.incarnation
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term, node, incarnation)
    SELECT id, attempt, 'assigned', 'queued', 'assigned', 'coordinator', %(term)s, node, incarnation
    FROM given
)
SELECT node, count(*) AS given FROM given GROUP BY node

-- name: promote_due
-- Queues what has become due; its rank is fixed here.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now, aging FROM cluster),
due AS MATERIALIZED (
    SELECT id FROM jobs
    WHERE node IS NULL AND queued_at IS NULL AND state = 'scheduled' AND run_at <= (SELECT now FROM clock)
    ORDER BY run_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), queued AS (
    UPDATE jobs SET state = 'queued', queued_at = now,
        rank = extract(epoch FROM greatest(run_at, now)) - priority * aging
    FROM due, clock WHERE jobs.id = due.id
    RETURNING jobs.id, jobs.attempt
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term)
    SELECT id, attempt, 'due', 'scheduled', 'queued', 'coordinator', %(term)s FROM queued
)
SELECT count(*) AS queued FROM queued

-- name: next_due
-- Seconds until the next scheduled job is due; null when there is none.
SELECT extract(epoch FROM min(run_at) - cluster_now())::float8 AS seconds FROM jobs
WHERE node IS NULL AND queued_at IS NULL AND state = 'scheduled'

-- name: take_back
-- Returns what a node was given and has not started to the queue, its rank kept.
WITH chosen AS MATERIALIZED (
    SELECT id, attempt, node, incarnation FROM jobs
    WHERE state = 'assigned' AND node = ANY(%(nodes)s::uuid[])
      AND (%(incarnation)s::bigint IS NULL OR incarnation = %(incarnation)s)
    ORDER BY rank DESC LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE jobs SET state = 'queued', node = NULL, incarnation = NULL, assigned_at = NULL
    FROM chosen WHERE jobs.id = chosen.id
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term, node, incarnation)
    SELECT id, attempt, 'taken_back', 'assigned', 'queued', %(actor)s, %(term)s, node, incarnation FROM chosen
)
SELECT count(*) AS taken FROM chosen

-- name: give_back_superseded
-- Moves on whatever belongs to an incarnation that is over, both states in one statement.
WITH clock AS MATERIALIZED (SELECT cluster_now() AS now),
gone AS MATERIALIZED (
    SELECT jobs.id, jobs.state, jobs.handler, jobs.attempt, jobs.node, jobs.incarnation, jobs.started_at,
        CASE WHEN jobs.state = 'assigned' THEN 'queued'
             WHEN jobs.cancel_requested_at IS NOT NULL THEN 'cancelled'
             WHEN jobs.attempt >= jobs.max_attempts THEN 'dead'
             ELSE 'queued' END::job_state AS next,
        jsonb_build_object('type', 'node_lost', 'message',
            'the node that ran this attempt was lost or restarted') AS error
    FROM jobs JOIN nodes ON nodes.id = jobs.node AND jobs.incarnation < nodes.incarnation
    WHERE jobs.node IS NOT NULL
      AND (%(node)s::uuid IS NULL OR jobs.node = %(node)s)
    ORDER BY jobs.id FOR UPDATE OF jobs
), moved AS (
    DELETE FROM jobs USING gone WHERE jobs.id = gone.id AND gone.next IN ('dead', 'cancelled')
    RETURNING jobs.*, gone.next, gone.error
), finished AS (
    INSERT INTO finished_jobs (id, state, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, finished_at, error)
    SELECT id, next, handler, payload, queue, priority, max_retries, max_attempts,
        backoff_base, backoff_cap, timeout, run_at, idempotency_key, submitted_by, traceparent, created_at,
        contract, attempt, node, started_at, cancel_requested_at, now, error
    FROM moved, clock
), kept AS (
    UPDATE jobs SET state = 'queued', node = NULL, incarnation = NULL, claim_token = NULL,
        assigned_at = NULL, started_at = NULL, progress = NULL, progress_note = NULL, queued_at = now
    FROM gone, clock WHERE jobs.id = gone.id AND gone.next = 'queued'
), ended AS (
    INSERT INTO attempts (job_id, attempt, node, incarnation, started_at, ended_at, outcome, seconds, error)
    SELECT id, attempt, node, incarnation, started_at, now, 'node_lost', NULL, error
    FROM gone, clock WHERE state = 'running'
), logged AS (
    INSERT INTO audit (job_id, attempt, event, from_state, to_state, actor, term, node, incarnation)
    SELECT id, attempt, CASE WHEN state = 'running' THEN 'node_lost' ELSE 'taken_back' END,
        state, next, %(actor)s, %(term)s, node, incarnation
    FROM gone
)
SELECT state, handler, next, count(*) AS jobs FROM gone GROUP BY state, handler, next
