"""Every Prometheus metric, defined once; labels are bounded by construction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily

from mutirao import __version__

disable_created_metrics()  # type: ignore[no-untyped-call]

AGENT = CollectorRegistry()
WEB = CollectorRegistry()
# Of a web server one worker would speak here for all, another one each time.
ProcessCollector(registry=AGENT)

C = TypeVar("C", Counter, Gauge)


def _on_both(collector: C) -> C:
    WEB.register(collector)
    return collector


# Both processes.

BUILD_INFO = _on_both(
    Gauge(
        "mutirao_build_info",
        "1, with the version that runs",
        ["version"],
        registry=AGENT,
        multiprocess_mode="max",
    )
)
BUILD_INFO.labels(__version__).set(1)
UNKNOWN_COMMITS = _on_both(
    Counter("mutirao_unknown_commits_total", "Commits whose outcome was not learned", registry=AGENT)
)

# An agent: its jobs.

CLAIMED = Counter("mutirao_attempts_started_total", "Attempts claimed by this node", registry=AGENT)
ENDED = Counter(
    "mutirao_attempts_ended_total",
    "Attempts whose end this node wrote, by handler and outcome",
    ["handler", "outcome"],
    registry=AGENT,
)
RUN_SECONDS = Histogram(
    "mutirao_attempt_seconds",
    "How long attempts ran in this node's runners, by handler",
    ["handler"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900),
    registry=AGENT,
)
JOB_WAIT_SECONDS = Histogram(
    "mutirao_job_wait_seconds",
    "How long jobs were due before this node started them",
    buckets=(0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600),
    registry=AGENT,
)
RETRIES = Counter("mutirao_retries_total", "Attempts that failed and are tried again", registry=AGENT)
DEAD = Counter("mutirao_jobs_dead_total", "Jobs that this node sent to the dead letters", registry=AGENT)
HANDED_BACK = Counter(
    "mutirao_attempts_handed_back_total",
    "Attempts claimed here, returned before they began",
    registry=AGENT,
)
ACKS_REFUSED = Counter(
    "mutirao_acknowledgements_refused_total", "Late or foreign acknowledgements refused", registry=AGENT
)
LOCKS_REFUSED = Counter(
    "mutirao_execution_locks_refused_total", "Claims handed back for a foreign lock", registry=AGENT
)
RUNNERS_BUSY = Gauge(
    "mutirao_attempts_running", "Attempts handed to this node's runners and not ended", registry=AGENT
)
SLOTS = Gauge("mutirao_slots", "Attempts that this node runs at once", registry=AGENT)

# An agent: its place in the cluster.

BEAT_AGE = Gauge(
    "mutirao_beat_age_seconds",
    "Time since this node's latest accepted beat began, by store",
    ["store"],
    registry=AGENT,
)
SELF_FENCES = Counter(
    "mutirao_self_fences_total", "Times this node's guard ended its runners at the deadline", registry=AGENT
)
TERM = Gauge("mutirao_term", "The term as last read by this node", registry=AGENT)
IN_OFFICE = Gauge(
    "mutirao_coordinator", "1 while this node is the coordinator in office, else 0: its role", registry=AGENT
)
LEADERSHIP_CHANGES = Counter(
    "mutirao_leadership_changes_total", "Times this node took or left office", ["to"], registry=AGENT
)
for _role in ("coordinator", "worker"):
    LEADERSHIP_CHANGES.labels(_role)

# An agent in office.

JOBS_ASSIGNED = Counter(
    "mutirao_jobs_assigned_total", "Jobs this node assigned while in office", registry=AGENT
)
NODES_LOST = Counter(
    "mutirao_nodes_declared_lost_total", "Nodes this coordinator declared lost", registry=AGENT
)
FENCED = Counter(
    "mutirao_fenced_transactions_total", "Coordinator transactions refused by the fence", registry=AGENT
)

# A web server.

HTTP_REQUESTS = Counter(
    "mutirao_http_requests_total",
    "Requests answered, by route and status",
    ["method", "route", "status"],
    registry=WEB,
)
HTTP_SECONDS = Histogram(
    "mutirao_http_request_seconds",
    "Time to answer a request, by route",
    ["route"],
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    registry=WEB,
)
HTTP_OPEN = Gauge(
    "mutirao_http_requests_in_progress",
    "Requests being answered",
    registry=WEB,
    multiprocess_mode="livesum",
)
SUBMISSIONS = Counter(
    "mutirao_submissions_total", "Jobs handed in at this door, by result", ["result"], registry=WEB
)
for _result in ("created", "repeated", "refused", "failed"):
    SUBMISSIONS.labels(_result)


@dataclass(frozen=True, slots=True)
class Reading:
    """A gauge that is read from PostgreSQL for each scrape, and absent when it cannot be read."""

    name: str
    help: str
    labels: Sequence[str] = ()

    def family(self, values: Mapping[tuple[str, ...], float | None]) -> GaugeMetricFamily:
        """Its samples, by the values of its labels; none for what is None."""
        family = GaugeMetricFamily(self.name, self.help, labels=self.labels)
        for labels, value in values.items():
            if value is not None:
                family.add_metric(labels, value)
        return family


STORE_UP = Reading("mutirao_store_up", "1 when PostgreSQL answered this scrape in time, else 0")
JOBS = Reading("mutirao_jobs", "Live jobs by state, as the coordinator last counted them", ["state"])
DEAD_LETTERS = Reading(
    "mutirao_dead_letters", "Dead jobs that wait for a decision, as the coordinator last counted them"
)
UNSERVED = Reading(
    "mutirao_jobs_unserved", "Jobs that wait though no live node serves them, as the coordinator last counted"
)
COUNT_AGE = Reading(
    "mutirao_job_counts_age_seconds", "Time since the coordinator counted the jobs and dead letters"
)
NODES = Reading("mutirao_nodes", "Nodes by status", ["status"])
OLDEST_BEAT = Reading(
    "mutirao_oldest_beat_age_seconds", "Age of the oldest beat among the nodes that are live or draining"
)
READINGS = (STORE_UP, JOBS, DEAD_LETTERS, UNSERVED, COUNT_AGE, NODES, OLDEST_BEAT)

# How many handlers have a label value of their own; the rest share one.
HANDLERS = 100
OTHER = "other"
_handlers: set[str] = set()


def attempt_ended(
    handler: str, outcome: str, seconds: float | None = None, *, led_to: str = "", count: int = 1
) -> None:
    """Counts the end of attempts by the state their job went on to; how long they ran where that is known."""
    label = _handler_label(handler)
    _ended(label, outcome).inc(count)
    if led_to == "dead":
        DEAD.inc(count)
    elif led_to in ("scheduled", "queued"):
        RETRIES.inc(count)
    if seconds is not None:
        _run_seconds(label).observe(seconds)


# Thousands of attempts end in a second: looking a label up costs more than counting.
@cache
def _ended(handler: str, outcome: str) -> Counter:
    return ENDED.labels(handler, outcome)


@cache
def _run_seconds(handler: str) -> Histogram:
    return RUN_SECONDS.labels(handler)


def _handler_label(handler: str) -> str:
    if handler not in _handlers:
        if len(_handlers) >= HANDLERS:
            return OTHER
        _handlers.add(handler)
        # Else the share of successes of a handler that only fails would not be 0 but nothing.
        _ended(handler, "succeeded")
    return handler
