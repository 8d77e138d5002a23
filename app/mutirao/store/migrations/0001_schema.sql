-- The first schema. Live and finished jobs are kept apart, so that history never slows the next job down.

CREATE TYPE job_state AS ENUM
    ('waiting', 'scheduled', 'queued', 'assigned', 'running', 'succeeded', 'dead', 'cancelled');

-- What all nodes must agree on (seconds). `lease` - 1 must exceed the worst Redis failover (4.8) + 2.5.
CREATE TABLE cluster (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    lease float8 NOT NULL DEFAULT 10 CHECK (lease - 1 > 4.8 + 2.5),
    guard float8 NOT NULL DEFAULT 2 CHECK (guard >= 1),
    store_outage float8 NOT NULL DEFAULT 60,
    aging float8 NOT NULL DEFAULT 60 CHECK (aging >= 0),
    CHECK (store_outage > lease + guard)
);
INSERT INTO cluster DEFAULT VALUES;

-- The fence: every coordinator transaction begins by holding this row under its own (term, holder).
CREATE TABLE term (
    one boolean PRIMARY KEY DEFAULT true CHECK (one),
    term bigint NOT NULL DEFAULT 0,
    holder text NOT NULL DEFAULT '',
    beat bigint NOT NULL DEFAULT 0,
    clock_floor timestamptz NOT NULL DEFAULT '-infinity'
);
INSERT INTO term DEFAULT VALUES;

-- Who held which term: a number may come back after a failover, a pair never.
CREATE TABLE terms (
    term bigint NOT NULL,
    holder text NOT NULL,
    node uuid NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (term, holder)
);

CREATE TABLE nodes (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    incarnation bigint NOT NULL,
    status text NOT NULL CHECK (status IN ('live', 'draining', 'lost', 'stopped')),
    url text NOT NULL DEFAULT '',
    slots int NOT NULL CHECK (slots >= 0),
    version text NOT NULL DEFAULT '',
    registered_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Apart from nodes: a beat that waits for its commit must not hold the row that claims lock.
CREATE TABLE beats (
    node uuid PRIMARY KEY REFERENCES nodes ON DELETE CASCADE,
    incarnation bigint NOT NULL,
    counter bigint NOT NULL,
    redis_on boolean NOT NULL DEFAULT true,
    capacity int NOT NULL DEFAULT 0 CHECK (capacity >= 0),
    beaten_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 20);

CREATE TABLE contracts (
    handler text NOT NULL,
    fingerprint text NOT NULL,
    description text NOT NULL DEFAULT '',
    payload_schema jsonb NOT NULL,
    result_schema jsonb NOT NULL,
    defaults jsonb NOT NULL,
    published_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (handler, fingerprint)
);

CREATE TABLE node_contracts (
    node uuid NOT NULL REFERENCES nodes ON DELETE CASCADE,
    handler text NOT NULL,
    fingerprint text NOT NULL,
    PRIMARY KEY (node, handler),
    FOREIGN KEY (handler, fingerprint) REFERENCES contracts
);

-- What a live and a finished job have in common.
CREATE TABLE jobs (
    id uuid PRIMARY KEY,
    state job_state NOT NULL CHECK (state IN ('waiting', 'scheduled', 'queued', 'assigned', 'running')),
    handler text NOT NULL,
    payload jsonb NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL CHECK (priority BETWEEN 0 AND 9),
    max_retries int NOT NULL CHECK (max_retries >= 0),
    max_attempts int NOT NULL,
    backoff_base float8 NOT NULL CHECK (backoff_base >= 0),
    backoff_cap float8 NOT NULL CHECK (backoff_cap >= 0),
    timeout float8 NOT NULL CHECK (timeout > 0),
    run_at timestamptz NOT NULL,
    idempotency_key text,
    submitted_by text NOT NULL,
    traceparent text NOT NULL,
    created_at timestamptz NOT NULL,
    attempt int NOT NULL DEFAULT 0,
    rank float8 NOT NULL,
    queued_at timestamptz,
    node uuid,
    incarnation bigint,
    claim_token uuid,
    assigned_at timestamptz,
    started_at timestamptz,
    cancel_requested_at timestamptz,
    progress real,
    CONSTRAINT attempts_are_bounded CHECK (attempt <= max_attempts),
    CONSTRAINT owned_when_given CHECK ((state IN ('assigned', 'running')) = (node IS NOT NULL AND incarnation IS NOT NULL)),
    CONSTRAINT queued_once_due CHECK ((queued_at IS NULL) = (state IN ('waiting', 'scheduled'))),
    CONSTRAINT claimed_when_running CHECK ((state = 'running') = (claim_token IS NOT NULL))
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0.2);
-- No index looks at `state`: so a claim touches none of them (a heap-only update).
CREATE INDEX jobs_queued ON jobs (rank, id) WHERE node IS NULL AND queued_at IS NOT NULL;
CREATE INDEX jobs_scheduled ON jobs (run_at) WHERE node IS NULL AND queued_at IS NULL;
CREATE INDEX jobs_given ON jobs (node, rank) WHERE node IS NOT NULL;

CREATE TABLE finished_jobs (
    id uuid NOT NULL,
    state job_state NOT NULL CHECK (state IN ('succeeded', 'dead', 'cancelled')),
    handler text NOT NULL,
    payload jsonb NOT NULL,
    queue text NOT NULL,
    priority smallint NOT NULL,
    max_retries int NOT NULL,
    max_attempts int NOT NULL,
    backoff_base float8 NOT NULL,
    backoff_cap float8 NOT NULL,
    timeout float8 NOT NULL,
    run_at timestamptz NOT NULL,
    idempotency_key text,
    submitted_by text NOT NULL,
    traceparent text NOT NULL,
    created_at timestamptz NOT NULL,
    attempt int NOT NULL,
    node uuid,
    started_at timestamptz,
    cancel_requested_at timestamptz,
    finished_at timestamptz NOT NULL,
    result jsonb,
    error jsonb,
    discarded_at timestamptz,
    PRIMARY KEY (id, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX finished_jobs_dead ON finished_jobs (finished_at, id) WHERE state = 'dead' AND discarded_at IS NULL;

-- A running attempt lives in its job's row; here is one row for each attempt that ended.
CREATE TABLE attempts (
    job_id uuid NOT NULL,
    attempt int NOT NULL,
    node uuid NOT NULL,
    incarnation bigint NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL,
    outcome text NOT NULL,
    seconds float8,
    error jsonb,
    PRIMARY KEY (job_id, attempt, ended_at)
) PARTITION BY RANGE (ended_at);

-- One row per transition, in the transition's own transaction (I6); other events leave both states null.
CREATE SEQUENCE audit_id;
CREATE TABLE audit (
    id bigint NOT NULL DEFAULT nextval('audit_id'),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    job_id uuid NOT NULL,
    attempt int NOT NULL,
    event text NOT NULL,
    from_state job_state,
    to_state job_state,
    actor text NOT NULL,
    term bigint,
    node uuid,
    incarnation bigint,
    detail jsonb,
    CONSTRAINT transition_is_legal CHECK (
        to_state IS NULL OR CASE
            WHEN from_state IS NULL THEN to_state IN ('queued', 'scheduled', 'waiting')
            WHEN from_state = 'queued' THEN to_state IN ('assigned', 'dead', 'cancelled')
            WHEN from_state = 'assigned' THEN to_state IN ('running', 'queued', 'cancelled')
            WHEN from_state = 'running' THEN to_state IN ('succeeded', 'scheduled', 'dead', 'cancelled', 'queued')
            WHEN from_state = 'scheduled' THEN to_state IN ('queued', 'dead', 'cancelled')
            WHEN from_state = 'waiting' THEN to_state IN ('queued', 'scheduled', 'dead', 'cancelled')
            WHEN from_state = 'dead' THEN to_state IN ('queued')
            ELSE false
        END
    )
) PARTITION BY RANGE (at);
CREATE INDEX audit_job ON audit (job_id);

-- Uniqueness of a key spans live and finished jobs, whatever became of them, for seven days.
CREATE TABLE submissions (
    idempotency_key text PRIMARY KEY,
    request_hash bytea NOT NULL,
    job_id uuid NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX submissions_created ON submissions (created_at);

-- Roll-ups, so that a page or a scrape never counts a large table.
CREATE TABLE outcome_minutes (
    minute timestamptz NOT NULL,
    handler text NOT NULL,
    outcome text NOT NULL,
    count bigint NOT NULL,
    seconds float8 NOT NULL,
    PRIMARY KEY (minute, handler, outcome)
);
CREATE TABLE state_counts (
    state job_state PRIMARY KEY,
    count bigint NOT NULL,
    counted_at timestamptz NOT NULL
);

-- PostgreSQL's clock, never behind what an earlier primary has shown (I8).
CREATE FUNCTION cluster_now() RETURNS timestamptz LANGUAGE sql STABLE AS
    'SELECT greatest(clock_timestamp(), clock_floor) FROM term';

-- Holds the term row for the rest of the transaction; raises MU001 unless term and holder are still the caller's (I3).
CREATE FUNCTION fence(my_term bigint, my_holder text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    -- The name lets a successor end exactly this office's open transactions.
    PERFORM set_config('application_name', my_holder, true),
            set_config('idle_in_transaction_session_timeout', '2s', true);
    PERFORM 1 FROM term WHERE term.term = my_term AND term.holder = my_holder FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'term % of % is over', my_term, my_holder USING ERRCODE = 'MU001';
    END IF;
END $$;

-- Keeps the node's incarnation from changing for the rest of the transaction; raises MU002 if it already did.
CREATE FUNCTION hold_node(my_node uuid, my_incarnation bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM 1 FROM nodes WHERE nodes.id = my_node AND nodes.incarnation = my_incarnation FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'incarnation % of node % is over', my_incarnation, my_node USING ERRCODE = 'MU002';
    END IF;
END $$;

-- Daily partitions from yesterday to `ahead` days from now; what no partition covers goes to the default one.
CREATE FUNCTION ensure_partitions(ahead int) RETURNS int LANGUAGE plpgsql AS $$
DECLARE
    parent text;
    day date;
    name text;
    made int := 0;
BEGIN
    FOREACH parent IN ARRAY ARRAY['finished_jobs', 'attempts', 'audit'] LOOP
        IF to_regclass(parent || '_default') IS NULL THEN
            EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', parent || '_default', parent);
        END IF;
        FOR day IN SELECT generate_series(current_date - 1, current_date + ahead, interval '1 day')::date LOOP
            name := parent || to_char(day, '_YYYYMMDD');
            IF to_regclass(name) IS NULL THEN
                BEGIN
                    EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L)',
                        name, parent, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC');
                    made := made + 1;
                EXCEPTION WHEN check_violation THEN
                    -- A clock that was ahead has put rows of that day into the default partition: they stay there.
                    NULL;
                END;
            END IF;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;
SELECT ensure_partitions(3);
