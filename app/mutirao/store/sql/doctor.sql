-- name: server
-- What the server is and how it is set up; needs no schema of ours and no privilege.
SELECT current_setting('server_version_num')::int AS version,
    current_setting('server_encoding') AS encoding,
    pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on' AS read_only,
    current_setting('fsync') = 'on' AND current_setting('full_page_writes') = 'on' AS durable,
    current_setting('autovacuum') = 'on' AS autovacuum,
    extract(epoch FROM current_setting('idle_session_timeout')::interval)::float8 AS idle_session_timeout,
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        AS connections,
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')::int AS sessions,
    (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid())::float8 AS oldest_transaction,
    to_regclass('mutirao.alembic_version') IS NOT NULL AS migrated,
    extract(epoch FROM clock_timestamp())::float8 AS clock

-- name: revision
-- The schema's revision.
SELECT version_num AS revision FROM mutirao.alembic_version

-- name: cluster_id
-- Which cluster this database is.
SELECT id FROM cluster

-- name: node
-- One node and the age of its beat, by this server's clock.
SELECT n.name, n.incarnation, n.status, n.version, b.redis_on,
    extract(epoch FROM clock_timestamp() - b.beaten_at)::float8 AS beat_age
FROM nodes n LEFT JOIN beats b ON b.node = n.id AND b.incarnation = n.incarnation
WHERE n.id = %(node)s

-- name: namesakes
-- How many other nodes in service call themselves the same.
SELECT count(*)::int AS count FROM nodes
WHERE name = %(name)s AND id <> %(node)s AND status IN ('live', 'draining')

-- name: term
-- The term, its beat, and the name of its holder where that is in service still.
SELECT t.term, t.beat, n.name
FROM term t LEFT JOIN nodes n ON n.id::text = split_part(t.holder, ':', 1)
    AND n.incarnation::text = split_part(t.holder, ':', 2) AND n.status IN ('live', 'draining')

-- name: refusals
-- The handlers that a node has and does not serve, and why.
SELECT handler, refusal FROM node_contracts WHERE node = %(node)s AND refusal IS NOT NULL ORDER BY handler

-- name: beating
-- The nodes whose beats should be found in Redis.
SELECT n.id, n.name FROM nodes n JOIN beats b ON b.node = n.id AND b.incarnation = n.incarnation
WHERE n.status = 'live' AND b.redis_on AND b.beaten_at > clock_timestamp() - interval '5 seconds'
