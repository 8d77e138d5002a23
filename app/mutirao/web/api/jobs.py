"""Jobs over REST: submit one or many, list, show, cancel."""

from __future__ import annotations

from uuid import UUID

import msgspec
from flask import request

from mutirao.domain.job import NewJob, Submitted
from mutirao.domain.views import JobFilter, JobView
from mutirao.errors import InvalidInput
from mutirao.services.jobs import Changed
from mutirao.services.requests import MAX_PAYLOAD, BatchRequest, JobRequest, KeyHeader
from mutirao.services.services import Services
from mutirao.services.submission import Asked
from mutirao.web import strict_json
from mutirao.web.api.answers import Accepted, AcceptedBatch, JobPage, Summaries
from mutirao.web.api.operations import Answer, Api, Reply
from mutirao.web.api.queries import IdsQuery, JobsQuery
from mutirao.web.api.reading import Body, Received
from mutirao.web.bodies import MAX_BATCH_BODY

ACTOR = "api"

_NEXT = {"showJob": "/id", "cancelJob": "/id"}
_KEY_TAKEN = {409: "an idempotency key came before with another request"}


class _Payload(msgspec.Struct):
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _Payloads(msgspec.Struct):
    jobs: list[_Payload]


def declare(api: Api, services: Services) -> None:
    """The operations under /jobs."""

    @api.post(
        "/jobs",
        Answer(Accepted, "stored durably", 201, ("Location",), _NEXT),
        Answer(Accepted, "its key repeats an earlier request", 200, ("Location",), _NEXT),
        headers=KeyHeader,
        body=Body((JobRequest,)),
        refusals=_KEY_TAKEN,
    )
    def submit_job(headers: KeyHeader, body: Received[JobRequest]) -> Reply:
        """Submits one job."""
        payload = msgspec.json.decode(body.raw, type=_Payload)
        asked = _asked(_with_key(body.value, headers.key), payload, "")
        accepted = _accepted(*services.submission.submit([asked], actor=ACTOR)[0])
        return Reply(accepted, 201 if accepted.created else 200, {"Location": accepted.url})

    @api.post(
        "/jobs/batch",
        Answer(AcceptedBatch, "stored durably", 201),
        Answer(AcceptedBatch, "all of the keys repeat earlier requests", 200),
        body=Body((BatchRequest,), MAX_BATCH_BODY),
        refusals=_KEY_TAKEN,
    )
    def submit_jobs(body: Received[BatchRequest]) -> Reply:
        """Submits jobs that are stored all together or not at all."""
        if "Idempotency-Key" in request.headers:
            raise InvalidInput("Idempotency-Key", "each job of a batch has an idempotency_key of its own")
        payloads = msgspec.json.decode(body.raw, type=_Payloads).jobs
        asked = [
            _asked(one, payload, f"jobs.{index}")
            for index, (one, payload) in enumerate(zip(body.value.jobs, payloads, strict=True))
        ]
        jobs = [_accepted(*done) for done in services.submission.submit(asked, actor=ACTOR)]
        return Reply(AcceptedBatch(jobs), 201 if any(job.created for job in jobs) else 200)

    @api.get(
        "/jobs",
        Answer(JobPage, "a page", leads_to={"showJob": "/jobs/0/id", "cancelJob": "/jobs/0/id"}),
        query=JobsQuery,
    )
    def list_jobs(query: JobsQuery) -> JobPage:
        """Lists live and finished jobs, the newest first."""
        wanted = JobFilter(
            states=query.state,
            handler=query.handler,
            queue=query.queue,
            created_after=query.created_after,
            created_before=query.created_before,
        )
        found = services.lists.jobs(wanted, query.cursor, query.limit)
        return JobPage(found.items, found.next_cursor)

    @api.get("/jobs/summaries", Answer(Summaries, "those that exist"), query=IdsQuery)
    def list_summaries(query: IdsQuery) -> Summaries:
        """Lists the jobs with these ids, in no particular order."""
        return Summaries(services.lists.summaries(query.ids))

    @api.get("/jobs/<uuid:job_id>", Answer(JobView, "the job"))
    def show_job(job_id: UUID) -> JobView:
        """Shows one job with its attempts and its history."""
        return services.jobs.show(job_id)

    @api.post(
        "/jobs/<uuid:job_id>/cancel",
        Answer(Changed, "it is cancelled, or its runner is being killed"),
        refusals={409: "it has ended otherwise"},
    )
    def cancel_job(job_id: UUID) -> Changed:
        """Ends a live job."""
        return services.jobs.cancel(job_id, actor=ACTOR)


def _with_key(job: JobRequest, key: str | None) -> JobRequest:
    """The job with the key of the Idempotency-Key header, which must not contradict its own."""
    if key is None or job.idempotency_key == key:
        return job
    if job.idempotency_key is not None:
        raise InvalidInput("idempotency_key", "differs from the Idempotency-Key header")
    return job.model_copy(update={"idempotency_key": key})


def _asked(one: JobRequest, raw: _Payload, path: str) -> Asked:
    payload = bytes(raw.payload)
    asked = Asked(request=one, payload=payload.decode(), path=path)
    if len(payload) > MAX_PAYLOAD:
        raise InvalidInput(asked.field("payload"), f"may have at most {MAX_PAYLOAD} bytes")
    strict_json.check_depth(payload, one.payload, asked.field("payload"))
    return asked


def _accepted(job: NewJob, done: Submitted) -> Accepted:
    return Accepted(done.id, done.state, done.created, job.handler, f"/api/v1/jobs/{done.id}")
