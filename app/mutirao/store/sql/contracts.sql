-- name: in_service
-- The contracts that a live node or this node's own past serves: found fit for the queue before.
SELECT DISTINCT handler, fingerprint FROM node_contracts JOIN nodes ON nodes.id = node_contracts.node
WHERE node_contracts.refusal IS NULL AND (nodes.status = 'live' OR nodes.id = %(node)s)

-- name: known
-- The ids of those of these contracts that were ever published.
SELECT id FROM contracts
    JOIN unnest(%(handlers)s::text[], %(fingerprints)s::text[]) AS mine (handler, fingerprint)
    USING (handler, fingerprint)

-- name: standing
-- What the node was registered with, each with the contracts of its handler that wait for somebody to serve them.
SELECT mine.handler, contracts.id AS contract, mine.refusal,
    ARRAY(SELECT contract FROM unserved WHERE unserved.handler = mine.handler AND contract <> contracts.id
          AND contract NOT IN (SELECT contract FROM served)) AS unserved
FROM node_contracts AS mine JOIN contracts USING (handler, fingerprint)
WHERE mine.node = %(node)s ORDER BY mine.handler

-- name: rule
-- Whether the node serves a handler after all: null, or why not. A contract that nobody served is dated then.
WITH ruled AS (
    UPDATE node_contracts SET refusal = %(refusal)s WHERE node = %(node)s AND handler = %(handler)s
    RETURNING handler, fingerprint, refusal
)
UPDATE contracts SET published_at = clock_timestamp() FROM ruled
WHERE contracts.handler = ruled.handler AND contracts.fingerprint = ruled.fingerprint
  AND ruled.refusal IS NULL AND NOT EXISTS (SELECT FROM served WHERE served.contract = contracts.id)

-- name: others
-- What jobs of these handlers may be under, but for some contracts; 0 is none.
SELECT id FROM (SELECT 0 AS id UNION SELECT id FROM contracts WHERE handler = ANY(%(handlers)s::text[])) AS known
WHERE id <> ALL(%(contracts)s::int[]) ORDER BY id

-- name: queued_stretch
-- Of the next so many queued jobs of a contract the wanted ones, of large ones fewer; where these are few, then the
-- place where that stretch ends.
WITH wanted AS MATERIALIZED (
    SELECT id FROM (
        SELECT id, rank, handler, contract FROM jobs
        WHERE node IS NULL AND queued_at IS NOT NULL AND contract = %(contract)s
          AND (rank, id) > (%(place)s::text::float8, %(id)s)
        ORDER BY rank, id LIMIT %(stretch)s
    ) AS looked_at
    WHERE handler = ANY(%(handlers)s::text[])
    ORDER BY rank, id LIMIT %(limit)s
)
(SELECT id, rank::text AS place, handler, contract, payload::text AS payload, wanted
 FROM (
    SELECT id, rank, handler, contract, payload, count(*) OVER () AS wanted,
        sum(pg_column_size(payload)) OVER (ORDER BY rank, id) - pg_column_size(payload) AS before
    FROM wanted JOIN jobs USING (id)
 ) AS sized WHERE before < %(bytes)s ORDER BY rank, id)
UNION ALL
(SELECT id, rank::text, NULL, NULL, NULL, 0 FROM jobs
 WHERE (SELECT count(*) FROM wanted) < %(limit)s
   AND node IS NULL AND queued_at IS NOT NULL AND contract = %(contract)s
   AND (rank, id) > (%(place)s::text::float8, %(id)s)
 ORDER BY rank, id OFFSET %(stretch)s - 1 LIMIT 1)

-- name: scheduled_stretch
-- The same of those that wait for their time, the next due first.
WITH wanted AS MATERIALIZED (
    SELECT id FROM (
        SELECT id, run_at, handler, contract FROM jobs
        WHERE node IS NULL AND queued_at IS NULL AND (run_at, id) > (%(place)s::text::timestamptz, %(id)s)
        ORDER BY run_at, id LIMIT %(stretch)s
    ) AS looked_at
    WHERE handler = ANY(%(handlers)s::text[]) AND (contract = ANY(%(contracts)s::int[])) = %(among)s::bool
    ORDER BY run_at, id LIMIT %(limit)s
)
(SELECT id, run_at::text AS place, handler, contract, payload::text AS payload, wanted
 FROM (
    SELECT id, run_at, handler, contract, payload, count(*) OVER () AS wanted,
        sum(pg_column_size(payload)) OVER (ORDER BY run_at, id) - pg_column_size(payload) AS before
    FROM wanted JOIN jobs USING (id)
 ) AS sized WHERE before < %(bytes)s ORDER BY run_at, id)
UNION ALL
(SELECT id, run_at::text, NULL, NULL, NULL, 0 FROM jobs
 WHERE (SELECT count(*) FROM wanted) < %(limit)s
   AND node IS NULL AND queued_at IS NULL AND (run_at, id) > (%(place)s::text::timestamptz, %(id)s)
 ORDER BY run_at, id OFFSET %(stretch)s - 1 LIMIT 1)

-- name: adopt
-- Binds unassigned jobs to another contract that they fit, unless they have moved on or found one already.
WITH held AS MATERIALIZED (
    SELECT jobs.id, jobs.attempt, given.former, given.contract
    FROM unnest(%(ids)s::uuid[], %(formers)s::int[], %(contracts)s::int[]) AS given (id, former, contract)
        JOIN jobs ON jobs.id = given.id
    WHERE jobs.node IS NULL AND jobs.contract = given.former
    ORDER BY jobs.id FOR UPDATE OF jobs SKIP LOCKED
), adopted AS (
    UPDATE jobs SET contract = held.contract FROM held WHERE jobs.id = held.id
), logged AS (
    INSERT INTO audit (job_id, attempt, event, actor, node, incarnation, detail)
    SELECT id, attempt, 'contract_adopted', 'agent', %(node)s, %(incarnation)s,
           jsonb_build_object('from', former, 'to', contract)
    FROM held
)
SELECT count(*) AS adopted FROM held
