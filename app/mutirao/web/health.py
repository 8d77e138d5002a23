"""Health for machines: alive, ready (and what fails), metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from flask import Blueprint, Flask, Response, g, request
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

import mutirao
from mutirao.errors import Unavailable
from mutirao.metrics import (
    COUNT_AGE,
    DEAD_LETTERS,
    HTTP_OPEN,
    HTTP_REQUESTS,
    HTTP_SECONDS,
    JOBS,
    NODES,
    OLDEST_BEAT,
    STORE_UP,
    UNSERVED,
    WEB,
)
from mutirao.services.services import Services
from mutirao.web.bodies import answer
from mutirao.web.problems import RETRY_AFTER
from mutirao.web.shared_metrics import SharedMetrics

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def blueprint(services: Services, node_name: str) -> Blueprint:
    """The routes /livez, /readyz and /metrics."""
    routes = Blueprint("health", __name__)

    @routes.get("/livez")
    def livez() -> Response:
        return answer({"status": "alive", "version": mutirao.__version__})

    @routes.get("/readyz")
    def readyz() -> Response:
        found = services.health.readiness()
        body: dict[str, object] = {"status": found.status}
        if g.trusted:
            body |= {
                "version": mutirao.__version__,
                "node": node_name,
                "dependencies": {one.name: msgspec.to_builtins(one) for one in found.dependencies},
            }
        return answer(body) if found.ready else answer(body, 503, {"Retry-After": RETRY_AFTER})

    @routes.get("/metrics")
    def metrics() -> Response:
        registry = CollectorRegistry()
        registry.register(SharedMetrics(WEB))
        registry.register(_Readings(services))
        return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)

    return routes


class _Readings(Collector):
    """What PostgreSQL knows, asked for one scrape."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def collect(self) -> Iterator[Metric]:
        try:
            found = self._services.gauges.answer()
        except Unavailable:
            yield STORE_UP.family({(): 0})
            return
        yield STORE_UP.family({(): 1})
        yield JOBS.family({(state,): count for state, count in found.jobs.items()})
        yield NODES.family({(status,): count for status, count in found.nodes.items()})
        yield DEAD_LETTERS.family({(): found.dead_letters})
        yield UNSERVED.family({(): found.unserved})
        yield COUNT_AGE.family({(): found.count_age})
        yield OLDEST_BEAT.family({(): found.oldest_beat})


def measure(app: Flask) -> None:
    """Counts and times every request by its route's pattern, never by its path."""

    @app.before_request
    def begin() -> None:
        g.began = time.perf_counter()
        HTTP_OPEN.inc()

    @app.after_request
    def end(response: Response) -> Response:
        route = request.url_rule.rule if request.url_rule else "unmatched"
        method = request.method if request.method in _METHODS else "other"
        HTTP_REQUESTS.labels(method, route, response.status_code).inc()
        HTTP_SECONDS.labels(route).observe(time.perf_counter() - g.began)
        return response

    @app.teardown_request
    def close(_error: BaseException | None) -> None:
        if "began" in g:
            HTTP_OPEN.dec()
