-- What the checker reads. Blocks named `prepare_…` run first, in order; every other block is a rule, named
-- `<invariant>_<rule>`, and yields (job_id, detail) for each violation of it.

-- name: prepare_steps
-- Every transition with the one before it of the same job, in the order they were written.
CREATE TEMP TABLE steps ON COMMIT DROP AS
SELECT id, job_id, attempt, event, from_state, to_state, term,
       lag(to_state) OVER job AS previous,
       row_number() OVER job AS nth,
       from_state IS NOT DISTINCT FROM 'assigned' AND to_state = 'running' AS claim,
       from_state IS NOT DISTINCT FROM 'running' AS leaves_running,
       event = 'handed_back' AS handed_back,
       from_state IS NOT DISTINCT FROM 'dead' AS replay,
       to_state IN ('succeeded', 'dead', 'cancelled') AS ends
FROM audit
WHERE to_state IS NOT NULL
WINDOW job AS (PARTITION BY job_id ORDER BY id);

-- name: prepare_present
-- Every job as it is now, live or finished.
CREATE TEMP TABLE present ON COMMIT DROP AS
SELECT id, state, attempt, max_retries, max_attempts FROM jobs
UNION ALL
SELECT id, state, attempt, max_retries, max_attempts FROM finished_jobs;

-- name: prepare_lives
-- Each job's audit rows in sums.
CREATE TEMP TABLE lives ON COMMIT DROP AS
SELECT job_id,
       count(*) AS steps,
       (array_agg(to_state ORDER BY nth DESC))[1] AS last_state,
       count(*) FILTER (WHERE claim) AS claims,
       count(*) FILTER (WHERE leaves_running AND handed_back) AS handed_back,
       count(*) FILTER (WHERE leaves_running AND NOT handed_back) AS ended_attempts,
       count(*) FILTER (WHERE replay) AS replays,
       count(*) FILTER (WHERE ends) AS ends
FROM steps
GROUP BY job_id;

-- name: prepare_tries
-- Each job's ended attempts in sums.
CREATE TEMP TABLE tries ON COMMIT DROP AS
SELECT job_id, count(*) AS rows, count(DISTINCT attempt) AS attempts, max(attempt) AS highest,
       array_agg(outcome ORDER BY attempt) AS outcomes
FROM attempts
GROUP BY job_id;

-- name: prepare_statistics
-- Without them the joins below are planned for empty tables.
ANALYZE steps, present, lives, tries, acknowledged;

-- name: I1_acknowledged_job_is_missing
SELECT a.id AS job_id, 'acknowledged, and in neither table' AS detail
FROM acknowledged a LEFT JOIN present p USING (id) WHERE p.id IS NULL;

-- name: I1_job_exists_twice
SELECT id AS job_id, format('%s rows: %s', count(*), string_agg(state::text, ', ')) AS detail
FROM present GROUP BY id HAVING count(*) > 1;

-- name: I1_audited_job_is_missing
SELECT l.job_id, format('audited as %s, and in neither table', l.last_state) AS detail
FROM lives l LEFT JOIN present p ON p.id = l.job_id WHERE p.id IS NULL;

-- name: I1_key_names_no_job
SELECT s.job_id, format('key %s names a job in neither table', s.idempotency_key) AS detail
FROM submissions s LEFT JOIN present p ON p.id = s.job_id WHERE p.id IS NULL;

-- name: I1_key_has_two_jobs
SELECT j.id AS job_id, format('key %s belongs to job %s', j.idempotency_key, s.job_id) AS detail
FROM (SELECT id, idempotency_key FROM jobs UNION ALL SELECT id, idempotency_key FROM finished_jobs) j
JOIN submissions s ON s.idempotency_key = j.idempotency_key AND s.job_id <> j.id;

-- name: I3_old_term_after_newer
SELECT job_id, format('audit row %s of term %s follows one of term %s', id, term, newest) AS detail
FROM (SELECT id, job_id, term, max(term) OVER (ORDER BY id) AS newest FROM audit WHERE term IS NOT NULL) a
WHERE term < newest;

-- name: I3_term_was_never_taken
SELECT (array_agg(a.job_id))[1] AS job_id, format('%s audit rows of term %s', count(*), a.term) AS detail
FROM audit a LEFT JOIN terms t ON t.term = a.term
WHERE a.term IS NOT NULL AND t.term IS NULL GROUP BY a.term;

-- name: I3_terms_do_not_increase
SELECT NULL::uuid AS job_id, format('term %s of %s was taken after term %s', term, holder, before) AS detail
FROM (SELECT term, holder, lag(term) OVER (ORDER BY taken_at) AS before FROM terms) t
WHERE before >= term;

-- name: I3_term_is_behind
SELECT NULL::uuid AS job_id, format('the term row says %s of %s, the newest taken is %s', c.term, c.holder, t.newest) AS detail
FROM term c, (SELECT max(term) AS newest FROM terms) t WHERE t.newest IS DISTINCT FROM nullif(c.term, 0);

-- name: I4_two_ends_in_one_life
SELECT job_id, format('%s ends and %s replays', ends, replays) AS detail
FROM lives WHERE ends > replays + 1;

-- name: I4_goes_on_after_its_end
SELECT job_id, format('audit row %s: %s to %s after %s', id, from_state, to_state, previous) AS detail
FROM steps WHERE previous IN ('succeeded', 'dead', 'cancelled') AND NOT (replay AND previous = 'dead');

-- name: I4_attempt_ended_twice
SELECT job_id, format('%s ends of %s attempts: %s', rows, attempts, outcomes) AS detail
FROM tries WHERE rows <> attempts;

-- name: I5_started_too_often
SELECT l.job_id,
       format('%s starts, %s handed back, %s replays, max_retries %s', l.claims, l.handed_back, l.replays, p.max_retries) AS detail
FROM lives l JOIN present p ON p.id = l.job_id
WHERE l.claims - l.handed_back > (p.max_retries + 1) * (1 + l.replays);

-- name: I5_bound_raised_without_audit
SELECT p.id AS job_id,
       format('max_attempts %s, max_retries %s, %s handed back, %s replays', p.max_attempts, p.max_retries,
              coalesce(l.handed_back, 0), coalesce(l.replays, 0)) AS detail
FROM present p LEFT JOIN lives l ON l.job_id = p.id
WHERE p.max_attempts > (p.max_retries + 1) * (1 + coalesce(l.replays, 0)) + coalesce(l.handed_back, 0);

-- name: I5_attempts_differ_from_claims
SELECT p.id AS job_id, format('attempt %s, %s claims audited', p.attempt, coalesce(l.claims, 0)) AS detail
FROM present p LEFT JOIN lives l ON l.job_id = p.id WHERE p.attempt <> coalesce(l.claims, 0);

-- name: I5_claims_are_not_numbered_in_order
SELECT job_id, format('claim %s has attempt %s', nth_claim, attempt) AS detail
FROM (SELECT job_id, attempt, row_number() OVER (PARTITION BY job_id ORDER BY id) AS nth_claim FROM steps WHERE claim) c
WHERE attempt <> nth_claim;

-- name: I6_chain_is_broken
SELECT job_id, format('audit row %s: from %s, but the row before says %s', id, coalesce(from_state::text, 'nothing'),
                      coalesce(previous::text, 'nothing')) AS detail
FROM steps WHERE from_state IS DISTINCT FROM previous;

-- name: I6_transition_is_illegal
SELECT job_id, format('audit row %s: %s to %s', id, coalesce(from_state::text, 'nothing'), to_state) AS detail
FROM steps WHERE NOT EXISTS (
    SELECT 1 FROM legal l WHERE l.before IS NOT DISTINCT FROM steps.from_state::text AND l.after = steps.to_state::text);

-- name: I6_last_row_is_not_the_present
SELECT p.id AS job_id, format('is %s, audited as %s', p.state, coalesce(l.last_state::text, 'nothing')) AS detail
FROM present p LEFT JOIN lives l ON l.job_id = p.id WHERE p.state IS DISTINCT FROM l.last_state;

-- name: I6_attempts_differ_from_audit
SELECT coalesce(l.job_id, t.job_id) AS job_id,
       format('%s attempts ended by the audit, %s rows: %s', coalesce(l.ended_attempts, 0), coalesce(t.rows, 0), t.outcomes) AS detail
FROM lives l FULL JOIN tries t ON t.job_id = l.job_id
WHERE coalesce(l.ended_attempts, 0) <> coalesce(t.rows, 0);

-- name: I6_attempt_of_the_future
SELECT t.job_id, format('attempt %s ended, the job is at %s', t.highest, p.attempt) AS detail
FROM tries t JOIN present p ON p.id = t.job_id WHERE t.highest > p.attempt;

-- name: I6_end_without_its_outcome
-- A cancel wins over whatever its attempt brought; nothing else does.
SELECT p.id AS job_id, format('%s, but its last attempt ended %s', p.state, t.outcomes[array_upper(t.outcomes, 1)]) AS detail
FROM present p LEFT JOIN tries t ON t.job_id = p.id
WHERE CASE p.state
    WHEN 'succeeded' THEN t.outcomes[array_upper(t.outcomes, 1)] IS DISTINCT FROM 'succeeded'
    WHEN 'cancelled' THEN false
    ELSE 'succeeded' = ANY (t.outcomes)
END
