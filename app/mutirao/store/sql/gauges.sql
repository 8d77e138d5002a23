-- name: counts
-- Jobs by state, as the coordinator last counted them, and how long ago that was.
SELECT state::text AS state, count, greatest(extract(epoch FROM cluster_now() - counted_at), 0)::float8 AS age
FROM state_counts

-- name: unserved
-- How many jobs wait though no live node serves their contract.
SELECT coalesce(sum(jobs), 0)::bigint AS jobs FROM unserved

-- name: nodes
-- Nodes by status; the age of the oldest beat among those that should beat.
SELECT n.status, count(*) AS nodes,
    max(greatest(extract(epoch FROM clock_timestamp() - b.beaten_at), 0))::float8 AS oldest_beat
FROM nodes n LEFT JOIN beats b ON b.node = n.id AND b.incarnation = n.incarnation
GROUP BY n.status
