-- What people's own handlers need: the output of an attempt, notes on progress, effects done once,
-- and contracts that jobs are bound to.

ALTER TABLE attempts ADD COLUMN output text, ADD COLUMN output_dropped bigint NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN progress_note text;

-- What `once` has answered yes to: a job's keys outlive its attempts and replays.
CREATE TABLE once_keys (
    job_id uuid NOT NULL,
    key text NOT NULL,
    attempt int NOT NULL,
    token uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (job_id, key)
);

-- A job names the contract its payload was found to fit; 0 is none yet, so a node must look at it first.
ALTER TABLE contracts ADD COLUMN id int GENERATED ALWAYS AS IDENTITY UNIQUE;
ALTER TABLE jobs ADD COLUMN contract int NOT NULL DEFAULT 0;
ALTER TABLE finished_jobs ADD COLUMN contract int NOT NULL DEFAULT 0;

-- The queue is one lane for each contract: jobs that nobody can do are in nobody's way.
DROP INDEX jobs_queued;
CREATE INDEX jobs_queued ON jobs (contract, rank, id) WHERE node IS NULL AND queued_at IS NOT NULL;

-- Why a node does not serve a handler that it has: its contract cannot accept what is queued.
ALTER TABLE node_contracts ADD COLUMN refusal text;

-- Who serves what: jobs of a contract go to these nodes only.
CREATE VIEW served AS
SELECT node_contracts.node, contracts.handler, contracts.id AS contract
FROM node_contracts JOIN nodes ON nodes.id = node_contracts.node AND nodes.status = 'live'
    JOIN contracts USING (handler, fingerprint)
WHERE node_contracts.refusal IS NULL;

-- Jobs that wait although nobody serves their contract, as last counted: what a node that can do them looks for.
CREATE TABLE unserved (
    handler text NOT NULL,
    contract int NOT NULL,
    jobs bigint NOT NULL,
    PRIMARY KEY (handler, contract)
);

-- The audit log read as a whole, newest first.
CREATE INDEX audit_newest ON audit (id);
