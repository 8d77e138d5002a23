-- name: hold_running
-- Keeps these attempts from ending for the rest of the transaction, as far as they are this incarnation's.
SELECT jobs.id, jobs.attempt
FROM unnest(%(ids)s::uuid[], %(attempts)s::int[]) AS given (id, attempt) JOIN jobs ON jobs.id = given.id
WHERE jobs.state = 'running' AND jobs.attempt = given.attempt
  AND jobs.node = %(node)s AND jobs.incarnation = %(incarnation)s
ORDER BY jobs.id FOR SHARE OF jobs

-- name: take_keys
-- Takes the keys that are new, in one order, so that two batches cannot deadlock.
INSERT INTO once_keys (job_id, key, attempt, token)
SELECT given.id, given.key, given.attempt, given.token
FROM unnest(%(ids)s::uuid[], %(keys)s::text[], %(attempts)s::int[], %(tokens)s::uuid[])
        AS given (id, key, attempt, token)
    JOIN jobs ON jobs.id = given.id
WHERE jobs.state = 'running' AND jobs.attempt = given.attempt
  AND jobs.node = %(node)s AND jobs.incarnation = %(incarnation)s
ORDER BY given.id, given.key
ON CONFLICT DO NOTHING

-- name: whose_keys
-- Which of these tokens have their key; each is looked up, however many there are of others.
SELECT token
FROM unnest(%(ids)s::uuid[], %(keys)s::text[], %(tokens)s::uuid[]) AS given (id, key, token)
WHERE token = (SELECT once_keys.token FROM once_keys
               WHERE once_keys.job_id = given.id AND once_keys.key = given.key)
