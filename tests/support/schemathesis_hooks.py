"""What no schema can say of a call that the server accepts; loaded by schemathesis in its own process."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import schemathesis
from hypothesis import strategies

NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}")
YEARS = strategies.datetimes(datetime(1970, 1, 2), datetime(9998, 12, 30))

schemathesis.openapi.format("date-time", YEARS.map(lambda time: f"{time.isoformat()}Z"))


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """Names a handler that exists and takes any payload, and no idempotency key twice."""
    keys = list[object]()
    for job in _jobs(case.body):
        if isinstance(job.get("handler"), str) and NAME.fullmatch(job["handler"]):
            job["handler"] = "anything"
        if job.get("idempotency_key") in keys or "Idempotency-Key" in (case.headers or {}):
            job.pop("idempotency_key", None)
        keys += filter(None, [job.get("idempotency_key")])


def _jobs(body: object) -> Iterator[dict[str, Any]]:
    jobs = body.get("jobs", [body]) if isinstance(body, dict) else []
    return (job for job in jobs if isinstance(job, dict)) if isinstance(jobs, list) else iter(())
