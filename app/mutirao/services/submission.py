"""Submitting jobs: checked against the published contracts first, then stored all together or not at all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from uuid_utils.compat import uuid7

from mutirao.domain.job import Backoff, NewJob, Submitted
from mutirao.errors import Conflict, InvalidInput, MutiraoError
from mutirao.metrics import SUBMISSIONS
from mutirao.services.contracts import ContractBook, Door
from mutirao.services.grouping import GroupCommit
from mutirao.services.requests import JobRequest


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came: typed, with its payload's JSON text as the caller wrote it."""

    request: JobRequest
    payload: str
    path: str = ""

    def field(self, name: str) -> str:
        """The path of one of its fields in the caller's document."""
        return f"{self.path}.{name}" if self.path else name


class Submission:
    """The one way in for new jobs."""

    def __init__(self, jobs: GroupCommit, contracts: ContractBook, wake: Callable[[], None]) -> None:
        self._jobs = jobs
        self._contracts = contracts
        self._wake = wake

    def submit(self, asked: Sequence[Asked], *, actor: str) -> list[tuple[NewJob, Submitted]]:
        """Stores the jobs atomically; the answers are in the requests' order.

        Raises InvalidInput (nothing stored), Conflict (a key with another body), StoreUnavailable,
        OutcomeUnknown.
        """
        try:
            _refuse_repeated_keys(asked)
            jobs = [self._accept(one, actor) for one in asked]
            answers = self._jobs.submit(jobs)
        except MutiraoError as error:
            refused = isinstance(error, (InvalidInput, Conflict))
            SUBMISSIONS.labels("refused" if refused else "failed").inc(len(asked))
            raise
        created = sum(answer.created for answer in answers)
        SUBMISSIONS.labels("created").inc(created)
        SUBMISSIONS.labels("repeated").inc(len(answers) - created)
        if created:
            self._wake()
        return list(zip(jobs, answers, strict=True))

    def _accept(self, one: Asked, actor: str) -> NewJob:
        request = one.request
        door = self._contracts.door(request.handler, one.field("handler"))
        door.check(request.payload, one.field("payload"))
        return NewJob(
            id=uuid7(),
            handler=request.handler,
            payload=one.payload,
            queue=door.queue if request.queue is None else request.queue,
            priority=door.priority if request.priority is None else request.priority,
            max_retries=door.max_retries if request.max_retries is None else request.max_retries,
            backoff=_backoff(request, door),
            timeout=door.timeout if request.timeout is None else request.timeout,
            run_at=request.run_at,
            idempotency_key=request.idempotency_key,
            request_hash=b"" if request.idempotency_key is None else request_hash(one),
            submitted_by=actor,
            contract=door.contract,
        )


def _backoff(request: JobRequest, door: Door) -> Backoff:
    asked = request.backoff
    if asked is None:
        return door.backoff
    return Backoff(
        door.backoff.base if asked.base is None else asked.base,
        door.backoff.cap if asked.cap is None else asked.cap,
    )


def _refuse_repeated_keys(asked: Sequence[Asked]) -> None:
    seen: dict[str, Asked] = {}
    for one in asked:
        key = one.request.idempotency_key
        if key is not None and seen.setdefault(key, one) is not one:
            raise InvalidInput(one.field("idempotency_key"), f"is also the key of {seen[key].path}")


def request_hash(one: Asked) -> bytes:
    """Equal for the same request in another spelling (spaces, key order), different for any other value."""
    said: dict[str, Any] = one.request.model_dump(exclude_unset=True, exclude={"idempotency_key", "payload"})
    said["payload"] = json.loads(one.payload, parse_float=_exact)
    text = json.dumps(said, sort_keys=True, separators=(",", ":"), default=_plain)
    return hashlib.sha256(text.encode()).digest()


def _exact(literal: str) -> dict[str, str]:
    # No document has a NUL in a key, so this cannot be taken for a value of the caller's.
    return {"\0": literal}


def _plain(value: object) -> str:
    if isinstance(value, (datetime, UUID)):
        return str(value)
    raise TypeError(type(value).__name__)
