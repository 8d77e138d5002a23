"""Everything the web server offers, connected; nothing connects before it is first used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mutirao.coordination.connection import connect, wrapped
from mutirao.coordination.keys import Keys
from mutirao.coordination.wakeup import Wakeups
from mutirao.services.contracts import ContractBook
from mutirao.services.grouping import GroupCommit
from mutirao.services.health import Health, Probe
from mutirao.services.inquiry import Inquiry
from mutirao.services.jobs import JobService
from mutirao.services.submission import Submission
from mutirao.services.waker import Waker
from mutirao.settings import Settings
from mutirao.store.database import Database
from mutirao.store.gauges import ClusterGauges, Gauges
from mutirao.store.insights import Insights
from mutirao.store.jobs import Jobs
from mutirao.store.lists import Lists

# Of a whole web server, unless its workers are so many that each would get only one.
_CONNECTIONS, _AT_LEAST = 4, 2
_PATIENCE = 0.3
_HEALTH_TIMEOUT = 2.0


@dataclass(frozen=True)
class Services:
    """One process's services; close them when it ends."""

    submission: Submission
    jobs: JobService
    insights: Insights
    lists: Lists
    gauges: Inquiry[ClusterGauges]
    health: Health
    waker: Waker
    databases: tuple[Database, ...]

    def close(self) -> None:
        """Ends threads and connections."""
        self.waker.close()
        self.gauges.close()
        self.health.close()
        for database in self.databases:
            database.close()


def open_services(settings: Settings) -> Services:
    """The services of a web server with these settings."""
    dsn, name = settings.postgres.get_secret_value(), f"mutirao-web {settings.node_name}"
    size = max(_AT_LEAST, _CONNECTIONS // settings.web_workers)
    database = Database(dsn, application_name=name, size=size, patience=_PATIENCE)
    # Its own connection: readiness must be answered in time when all the others are stuck.
    probe = Database(dsn, application_name=f"{name} probe", size=1, timeout=_HEALTH_TIMEOUT)
    insights, lists, jobs = Insights(database), Lists(database), Jobs(database)
    url = settings.redis.get_secret_value()
    waker = Waker(Wakeups(connect(url), Keys(settings.redis_prefix)))
    return Services(
        submission=Submission(GroupCommit(jobs.submit), ContractBook(insights.contracts), waker.work),
        jobs=JobService(jobs, insights, lists, waker),
        insights=insights,
        lists=lists,
        gauges=Inquiry("gauges", Gauges(probe).read, _HEALTH_TIMEOUT),
        health=Health(
            Probe("postgres", Insights(probe).ping, required=True),
            Probe("redis", _redis_ping(url), required=False),
        ),
        waker=waker,
        databases=(database, probe),
    )


def _redis_ping(url: str) -> Callable[[], str]:
    redis = connect(url)

    def ping() -> str:
        with wrapped():
            redis.ping()
        return ""

    return ping
