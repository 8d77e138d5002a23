-- name: read
-- The term, who holds it and its beat.
SELECT term, holder, beat FROM term

-- name: take
-- Takes the next term, provided that (term, holder) and, where given, the beat are as they were read.
WITH taken AS (
    UPDATE term SET term = term + 1, holder = %(new_holder)s, beat = 0,
        clock_floor = greatest(clock_floor, clock_timestamp())
    WHERE term = %(term)s AND holder = %(holder)s AND (%(beat)s::bigint IS NULL OR beat = %(beat)s)
    RETURNING term, holder
), noted AS (
    INSERT INTO terms (term, holder, node) SELECT term, holder, %(node)s FROM taken
)
SELECT term FROM taken

-- name: limit_wait
-- A frozen holder must not keep its successor waiting without bound, nor a frozen candidate the next one.
SELECT set_config('lock_timeout', '1s', true) AS wait,
    set_config('idle_in_transaction_session_timeout', '2s', true) AS idle,
    set_config('application_name', %(new_holder)s, true) AS name

-- name: end_sessions
-- Ends the open transactions of the term's former holder, which are marked with its name.
SELECT count(pg_terminate_backend(pid)) AS ended FROM pg_stat_activity
WHERE application_name = %(holder)s AND pid <> pg_backend_pid() AND datname = current_database()

-- name: beat
-- The office's own sign of life. The clock's floor rises with the time the office has measured, only slower: the
-- cluster's time neither runs back nor stands still when a server's clock was ahead, and the lead melts.
UPDATE term SET beat = beat + 1,
    clock_floor = greatest(clock_floor + make_interval(secs => 0.9 * %(elapsed)s), clock_timestamp())
WHERE term = %(term)s AND holder = %(holder)s

-- name: ensure_partitions
-- Keeps the partitions of the coming days ready.
SELECT ensure_partitions(3) AS made

-- name: scan_freely
-- Counting everything is the one thing here that no index makes faster.
SET LOCAL enable_seqscan = on

-- name: count_states
-- Counts the live jobs: by state, for whoever asks how long the queues are; and those that nobody serves.
WITH counted AS MATERIALIZED (
    SELECT state, handler, contract, count(*) AS jobs FROM jobs GROUP BY state, handler, contract
), by_state AS (
    INSERT INTO state_counts (state, count, counted_at)
    SELECT state, coalesce(sum(jobs), 0), cluster_now()
    FROM unnest(ARRAY['waiting', 'scheduled', 'queued', 'assigned', 'running']::job_state[]) AS known (state)
        LEFT JOIN counted USING (state)
    GROUP BY state
    ON CONFLICT (state) DO UPDATE SET count = excluded.count, counted_at = excluded.counted_at
), left_over AS MATERIALIZED (
    SELECT handler, contract, sum(jobs) AS jobs FROM counted
    WHERE state IN ('waiting', 'scheduled', 'queued') AND contract NOT IN (SELECT contract FROM served)
    GROUP BY handler, contract
), settled AS (
    DELETE FROM unserved
    WHERE NOT EXISTS (SELECT FROM left_over AS l WHERE l.handler = unserved.handler AND l.contract = unserved.contract)
)
INSERT INTO unserved AS known (handler, contract, jobs)
SELECT handler, contract, jobs FROM left_over ORDER BY handler, contract
ON CONFLICT (handler, contract) DO UPDATE SET jobs = excluded.jobs WHERE known.jobs <> excluded.jobs

-- name: note_unserved
-- Notes contracts that queued jobs wait under and nobody serves, however long it takes to count them.
INSERT INTO unserved (handler, contract, jobs)
SELECT contracts.handler, contracts.id, 1 FROM contracts
    CROSS JOIN LATERAL (
        SELECT FROM jobs WHERE node IS NULL AND queued_at IS NOT NULL AND jobs.contract = contracts.id LIMIT 1
    ) AS one
WHERE contracts.id NOT IN (SELECT contract FROM served) ORDER BY contracts.handler, contracts.id
ON CONFLICT DO NOTHING

-- name: count_dead
-- Counts the dead letters that wait for a decision, however many there are.
INSERT INTO state_counts (state, count, counted_at)
SELECT 'dead', count(*), cluster_now() FROM finished_jobs WHERE state = 'dead' AND discarded_at IS NULL
ON CONFLICT (state) DO UPDATE SET count = excluded.count, counted_at = excluded.counted_at
