"""Every Prometheus collector, defined once; labels are bounded by construction."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram, disable_created_metrics

disable_created_metrics()  # type: ignore[no-untyped-call]

UNKNOWN_COMMITS = Counter("mutirao_unknown_commits_total", "Commits whose outcome was not learned")
FENCED = Counter("mutirao_fenced_transactions_total", "Coordinator transactions refused by the fence")
ACKS_REFUSED = Counter("mutirao_acknowledgements_refused_total", "Late or foreign acknowledgements refused")
JOBS_ENDED = Counter("mutirao_attempts_ended_total", "Attempts that ended here", ["outcome"])
JOBS_CLAIMED = Counter("mutirao_attempts_started_total", "Attempts claimed by this node")
JOBS_ASSIGNED = Counter("mutirao_jobs_assigned_total", "Jobs this node assigned while in office")
RUN_SECONDS = Histogram(
    "mutirao_attempt_seconds",
    "How long handlers ran",
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900),
)
SELF_FENCES = Counter(
    "mutirao_self_fences_total", "Times this node's guard ended its runners at the deadline"
)
NODES_LOST = Counter("mutirao_nodes_declared_lost_total", "Nodes this coordinator declared lost")
LOCKS_REFUSED = Counter("mutirao_execution_locks_refused_total", "Claims handed back for a foreign lock")
TERM = Gauge("mutirao_term", "The term as last read by this node")
IN_OFFICE = Gauge("mutirao_coordinator", "1 while this node is the coordinator in office")
LEADERSHIP_CHANGES = Counter(
    "mutirao_leadership_changes_total", "Times this node took or left office", ["to"]
)
REDIS_ACCEPTED = Gauge("mutirao_redis_beat_accepted", "1 when the last Redis beat was accepted")
POSTGRES_ACCEPTED = Gauge("mutirao_postgres_beat_accepted", "1 when the last PostgreSQL beat was accepted")
RUNNERS_BUSY = Gauge("mutirao_attempts_running", "Attempts handed to this node's runners and not ended")

HTTP_REQUESTS = Counter(
    "mutirao_http_requests_total", "Requests answered, by route and status", ["method", "route", "status"]
)
HTTP_SECONDS = Histogram(
    "mutirao_http_request_seconds",
    "Time to answer a request, by route",
    ["route"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
SUBMISSIONS = Counter("mutirao_submissions_total", "Jobs handed in at this door, by result", ["result"])
JOBS = Gauge("mutirao_jobs", "Jobs by state, as the coordinator last counted them", ["state"])
DEAD_LETTERS = Gauge("mutirao_dead_letters", "Dead jobs that wait for a decision, counted up to 1001")
STORE_UP = Gauge("mutirao_store_up", "1 when PostgreSQL answered the last scrape")
