"""`mutirao.Client`: what a program says to a cluster, and what it hears, as typed Python values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import msgspec

from mutirao.client import watching
from mutirao.client.changes import Changes
from mutirao.client.requests import Request, instant, request
from mutirao.client.rest import Rest
from mutirao.client.results import Changed, Job, JobFailed, JobRef, Letter, Submitted, id_of
from mutirao.domain.job import Backoff, State
from mutirao.domain.views import ContractView, JobSummary, NodeView, Page


class Client:
    """Speaks to any node of a cluster; safe to share between threads, and a dead node is no error.

    `urls` are the nodes' addresses (one, several, or comma-separated; else MUTIRAO_URL), `token` the API's
    (else MUTIRAO_TOKEN). Each call is tried at one address after the other for about `timeout` seconds, then
    raises Unavailable; every call is safe to repeat. Other errors: those of `mutirao.errors`.
    """

    def __init__(
        self, urls: str | Sequence[str] | None = None, token: str | None = None, *, timeout: float = 30.0
    ) -> None:
        self._rest = Rest(urls, token, timeout=timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._rest.close()

    # Submitting

    def submit(
        self,
        handler: str,
        payload: Any = None,
        *,
        queue: str | None = None,
        priority: int | None = None,
        max_retries: int | None = None,
        backoff: Backoff | Mapping[str, float] | None = None,
        timeout: float | None = None,
        run_at: datetime | None = None,
        idempotency_key: str | None = None,
    ) -> Submitted:
        """Submits one job under a key made before the first try, so that however often it is tried it is one.

        `payload` is any JSON value (None: `{}`), `timeout` the seconds an attempt may run; what is None comes
        from the handler's contract. Raises InvalidInput naming the field (InvalidValue, a ValueError, for
        what is no JSON or a time without an offset), Conflict when the key was used for another request.
        """
        asked = Request(
            handler=handler,
            payload={} if payload is None else payload,
            queue=queue,
            priority=priority,
            max_retries=max_retries,
            backoff=backoff,
            timeout=timeout,
            run_at=run_at,
            idempotency_key=idempotency_key,
        )
        return self._rest.submit(asked.text()).as_(Submitted)

    def submit_many(
        self,
        jobs: Iterable[Request | Mapping[str, Any]],
        *,
        chunk: int = 1000,
        idempotency_key: str | None = None,
    ) -> list[Submitted]:
        """Submits jobs in order, up to `chunk` in a request; such a chunk is stored as a whole or not at all.

        `jobs` may be a generator; it is taken from as the chunks go out. With `idempotency_key`, job n gets
        the key `<it>-n`, so that a program that died in the middle may submit the same again. An InvalidInput
        names the job (`jobs.1203.payload.path`); the chunks before it are stored.
        """
        texts = (
            request(job).text(idempotency_key and f"{idempotency_key}-{number}")
            for number, job in enumerate(jobs)
        )
        answers = self._rest.submit_many(texts, chunk)
        return [job for answer in answers for job in answer.as_(_Accepted).jobs]

    # Waiting

    def wait(self, job: JobRef, timeout: float | None = None) -> Job:
        """The job once it has ended, however it did; WaitTimeout after `timeout` seconds."""
        return watching.wait(self._rest, id_of(job), timeout).as_(Job)

    def wait_all(self, jobs: Iterable[JobRef], timeout: float | None = None) -> list[JobSummary]:
        """The jobs, in the order given, once all have ended; WaitTimeout after `timeout` seconds."""
        ids = [id_of(job) for job in jobs]
        found = {str(job.id): job for job in self.stream(ids, timeout)}
        return [found[one] for one in ids]

    def stream(self, jobs: Iterable[JobRef], timeout: float | None = None) -> Iterator[JobSummary]:
        """Each of the jobs as it ends, the first to end first; at most some thousands are followed at a time.

        `jobs` may be a generator that goes on for ever. WaitTimeout after `timeout` seconds.
        """
        ended = watching.ended(self._rest, (id_of(job) for job in jobs), timeout)
        return (job.as_(JobSummary) for job in ended)

    def follow(
        self, *, handler: str | None = None, queue: str | None = None, timeout: float | None = None
    ) -> Iterator[JobSummary]:
        """Every job that fits and is submitted from now on, each time its state is seen to have changed.

        Ends after `timeout` seconds, or never. A state that lasts shorter than a look may go unseen, never
        a job's end.
        """
        return Changes(self._rest, {"handler": handler, "queue": queue}).run(timeout)

    def result(self, job: JobRef, timeout: float | None = None) -> Any:
        """What the job's handler returned, once it has; JobFailed when it ended dead or cancelled."""
        ended = self.wait(job, timeout)
        if ended.state != State.SUCCEEDED:
            raise JobFailed(ended)
        return ended.result

    # Reading

    def job(self, job: JobRef) -> Job:
        """The job with its attempts and its history; NotFound."""
        return self._rest.job(id_of(job)).as_(Job)

    def jobs(
        self,
        *,
        state: str | Iterable[str] | None = None,
        handler: str | None = None,
        queue: str | None = None,
        created_after: datetime | None = None,
        created_before: datetime | None = None,
    ) -> Iterator[JobSummary]:
        """Every job that fits, the newest first; pages are asked for as one goes on."""
        states = state if state is None or isinstance(state, str) else ",".join(state)
        query = {
            "state": states,
            "handler": handler,
            "queue": queue,
            "created_after": created_after and instant("created_after", created_after),
            "created_before": created_before and instant("created_before", created_before),
        }
        cursor: str | None = None
        while True:
            page = self._rest.jobs(**query, limit=500, cursor=cursor).as_(_Jobs)
            yield from page.jobs
            cursor = page.next_cursor
            if cursor is None:
                return

    def dead_letters(
        self,
        *,
        handler: str | None = None,
        queue: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page[Letter]:
        """A page of the dead jobs that wait for a decision, the latest first."""
        found = self._rest.dead_letters(handler=handler, queue=queue, limit=limit, cursor=cursor)
        return Page(items=found.as_(_Letters).dead_letters, next_cursor=found["next_cursor"])

    def handlers(self) -> list[ContractView]:
        """The contracts that the cluster's handlers have published."""
        return self._rest.handlers().as_(_Handlers).handlers

    def nodes(self) -> list[NodeView]:
        """Every node."""
        return self._rest.nodes().as_(_Nodes).nodes

    # Changing

    def cancel(self, job: JobRef) -> Changed:
        """Ends a live job, or its runner first; again is fine; Conflict when it ended otherwise."""
        return self._rest.cancel(id_of(job)).as_(Changed)

    def replay(self, job: JobRef) -> Changed:
        """Queues a dead job again with a full set of attempts; Conflict when somebody else already has."""
        return self._rest.replay(id_of(job)).as_(Changed)

    def discard(self, job: JobRef) -> Changed:
        """Puts a dead job aside for good; Conflict unless it is a dead letter."""
        return self._rest.discard(id_of(job)).as_(Changed)


class _Accepted(msgspec.Struct):
    jobs: list[Submitted]


class _Jobs(msgspec.Struct):
    jobs: list[JobSummary]
    next_cursor: str | None


class _Letters(msgspec.Struct):
    dead_letters: list[Letter]


class _Handlers(msgspec.Struct):
    handlers: list[ContractView]


class _Nodes(msgspec.Struct):
    nodes: list[NodeView]
