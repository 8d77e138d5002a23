"""Jobs over REST: submit one or many, list, show, cancel."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import msgspec
from flask import Blueprint, Response, request

from mutirao.domain.job import NewJob, Submitted
from mutirao.errors import InvalidInput
from mutirao.services.requests import MAX_PAYLOAD, BatchRequest, JobRequest, validate
from mutirao.services.services import Services
from mutirao.services.submission import Asked
from mutirao.web import strict_json
from mutirao.web.api import params
from mutirao.web.bodies import MAX_BATCH_BODY, MAX_BODY, answer, read_body

ACTOR = "api"


class _Payload(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _Payloads(msgspec.Struct):
    jobs: list[_Payload]


class Accepted(msgspec.Struct, frozen=True):
    """The answer for one submitted job; `created` is false when its key repeated an earlier request."""

    id: UUID
    state: str
    created: bool
    handler: str
    url: str


def blueprint(services: Services) -> Blueprint:
    """The routes under /api/v1/jobs."""
    routes = Blueprint("jobs", __name__)

    @routes.post("/jobs")
    def submit() -> Response:
        params.only()
        body = read_body(MAX_BODY)
        document = _with_key(strict_json.parse(body))
        asked = _asked(validate(JobRequest, document), msgspec.json.decode(body, type=_Payload), "")
        accepted = _accepted(*services.submission.submit([asked], actor=ACTOR)[0])
        return answer(accepted, 201 if accepted.created else 200, {"Location": accepted.url})

    @routes.post("/jobs/batch")
    def submit_batch() -> Response:
        params.only()
        if "Idempotency-Key" in request.headers:
            raise InvalidInput("Idempotency-Key", "each job of a batch has an idempotency_key of its own")
        body = read_body(MAX_BATCH_BODY)
        batch = validate(BatchRequest, strict_json.parse(body))
        payloads = msgspec.json.decode(body, type=_Payloads).jobs
        asked = [
            _asked(one, payload, f"jobs.{index}")
            for index, (one, payload) in enumerate(zip(batch.jobs, payloads, strict=True))
        ]
        jobs = [_accepted(*done) for done in services.submission.submit(asked, actor=ACTOR)]
        return answer({"jobs": jobs}, 201 if any(job.created for job in jobs) else 200)

    @routes.get("/jobs")
    def list_jobs() -> Response:
        params.only("state", "handler", "queue", "cursor", "limit")
        wanted, (cursor, limit) = params.job_filter("state", "handler", "queue"), params.page()
        found = services.insights.list_jobs(wanted, cursor, limit)
        return answer({"jobs": found.items, "next_cursor": found.next_cursor})

    @routes.get("/jobs/<uuid:job_id>")
    def show(job_id: UUID) -> Response:
        params.only()
        return answer(services.jobs.show(job_id))

    @routes.post("/jobs/<uuid:job_id>/cancel")
    def cancel(job_id: UUID) -> Response:
        params.only()
        return answer(services.jobs.cancel(job_id, actor=ACTOR))

    return routes


def _with_key(document: Any) -> Any:
    """The document with the key of the Idempotency-Key header, which must not contradict its own."""
    header = request.headers.get("Idempotency-Key")
    if header is None or not isinstance(document, dict):
        return document
    if not header.isascii():
        raise InvalidInput("Idempotency-Key", "must be ASCII; send other keys as the field idempotency_key")
    given = document.get("idempotency_key")
    if given is not None and given != header:
        raise InvalidInput("idempotency_key", "differs from the Idempotency-Key header")
    return {**document, "idempotency_key": header}


def _asked(one: JobRequest, raw: _Payload, path: str) -> Asked:
    payload = bytes(raw.payload)
    asked = Asked(request=one, payload=payload.decode(), path=path)
    if len(payload) > MAX_PAYLOAD:
        raise InvalidInput(asked.field("payload"), f"may have at most {MAX_PAYLOAD} bytes")
    strict_json.check_depth(payload, one.payload, asked.field("payload"))
    return asked


def _accepted(job: NewJob, done: Submitted) -> Accepted:
    return Accepted(done.id, done.state, done.created, job.handler, f"/api/v1/jobs/{done.id}")
