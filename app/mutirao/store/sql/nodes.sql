-- name: cluster
-- What all nodes must agree on.
SELECT lease, guard, store_outage, aging FROM cluster

-- name: node
-- A node as it stands, held until the end of the transaction.
SELECT id, incarnation, status FROM nodes WHERE id = %(node)s FOR UPDATE

-- name: hold_node
-- Begins what only this incarnation may write: it cannot end before the transaction does.
SELECT hold_node(%(node)s, %(incarnation)s)

-- name: counter
-- A node's incarnation and beat counter, to watch whether somebody else moves it.
SELECT incarnation, counter FROM beats WHERE node = %(node)s

-- name: register
-- Begins the node's next incarnation.
INSERT INTO nodes AS kept (id, name, incarnation, status, url, slots, version)
VALUES (%(node)s, %(name)s, 1, 'live', %(url)s, %(slots)s, %(version)s)
ON CONFLICT (id) DO UPDATE SET name = excluded.name, incarnation = kept.incarnation + 1, status = 'live',
    url = excluded.url, slots = excluded.slots, version = excluded.version, registered_at = clock_timestamp()
RETURNING incarnation

-- name: start_beats
-- The beats' row follows the node's new incarnation; its counter never runs backwards.
INSERT INTO beats AS kept (node, incarnation, counter)
VALUES (%(node)s, %(incarnation)s, 1)
ON CONFLICT (node) DO UPDATE SET incarnation = excluded.incarnation, counter = kept.counter + 1,
    redis_on = true, capacity = 0, beaten_at = clock_timestamp()
RETURNING counter

-- name: publish_contracts
-- Makes contracts known to every door; one that is known is dated anew only if nobody served it just now (nor this
-- node's own past): so that a restart of one node does not change what the doors go by, and going back does. One that
-- nobody has ever served has no date.
INSERT INTO contracts AS known (handler, fingerprint, description, payload_schema, result_schema, defaults,
                                published_at)
SELECT handler, fingerprint, description, payload_schema::jsonb, result_schema::jsonb, defaults::jsonb,
    CASE WHEN refusal IS NULL THEN clock_timestamp() ELSE '-infinity' END
FROM unnest(%(handlers)s::text[], %(fingerprints)s::text[], %(descriptions)s::text[],
            %(payload_schemas)s::text[], %(result_schemas)s::text[], %(defaults)s::text[], %(refusals)s::text[])
    AS given (handler, fingerprint, description, payload_schema, result_schema, defaults, refusal)
ORDER BY handler, fingerprint
ON CONFLICT (handler, fingerprint) DO UPDATE
SET description = excluded.description,
    published_at = CASE WHEN excluded.published_at = '-infinity'
                             OR EXISTS (SELECT FROM served WHERE served.contract = known.id)
                        THEN known.published_at ELSE excluded.published_at END

-- name: forget_node_contracts
-- Clears what the node's former incarnation served.
DELETE FROM node_contracts WHERE node = %(node)s

-- name: serve_contracts
-- What the node's incarnation has, and why it does not serve what it refuses.
INSERT INTO node_contracts (node, handler, fingerprint, refusal)
SELECT %(node)s, handler, fingerprint, refusal
FROM unnest(%(handlers)s::text[], %(fingerprints)s::text[], %(refusals)s::text[])
    AS given (handler, fingerprint, refusal)

-- name: beat
-- Moves the node's own counter, forwards only and under its own incarnation only.
UPDATE beats SET counter = %(counter)s, redis_on = %(redis_on)s, capacity = %(capacity)s,
    beaten_at = clock_timestamp()
WHERE node = %(node)s AND incarnation = %(incarnation)s AND counter < %(counter)s

-- name: read_beats
-- Everyone's counters, with the identity of the server that says so.
SELECT nodes.id AS node, nodes.status, nodes.slots, beats.incarnation, beats.counter, beats.redis_on,
    beats.capacity, pg_postmaster_start_time()::text AS server
FROM beats JOIN nodes ON nodes.id = beats.node

-- name: hold_judged
-- Holds the node and its beat, provided that both still are as they were judged.
SELECT nodes.id
FROM nodes JOIN beats ON beats.node = nodes.id
WHERE nodes.id = %(node)s AND nodes.incarnation = %(incarnation)s AND nodes.status IN ('live', 'draining')
  AND beats.incarnation = %(incarnation)s AND beats.counter = %(counter)s AND beats.redis_on = %(redis_on)s
FOR UPDATE OF nodes, beats

-- name: end_incarnation
-- Nothing of the node's present incarnation counts from here on.
WITH ended AS (
    UPDATE nodes SET incarnation = incarnation + 1, status = %(status)s
    WHERE id = %(node)s AND incarnation = %(incarnation)s RETURNING id, incarnation
)
UPDATE beats SET incarnation = ended.incarnation FROM ended WHERE beats.node = ended.id

-- name: drain
-- Says that the node wants nothing new.
UPDATE nodes SET status = 'draining' WHERE id = %(node)s AND incarnation = %(incarnation)s
