"""The REST client: small, typed at its edges, and safe to repeat a submission with."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

import httpx

from mutirao.errors import Conflict, InvalidInput, MutiraoError, NotFound, Unavailable

DEFAULT_URL = "http://127.0.0.1:8080"
ENDED = frozenset({"succeeded", "dead", "cancelled"})

_TRIES = 4
_TIMEOUT = httpx.Timeout(15.0, connect=3.0)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer: `text` is its JSON as sent, `value` the same as Python values."""

    text: str
    value: Any

    def __getitem__(self, key: str) -> Any:
        return self.value[key]


class WaitTimeout(MutiraoError):
    """The job had not ended when the time to wait was over; it goes on."""

    code = "wait_timeout"


class Client:
    """Talks to one node's web server; errors are those of `mutirao.errors`."""

    def __init__(self, url: str = DEFAULT_URL, token: str | None = None) -> None:
        self._url = url.rstrip("/")
        headers = {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        self._http = httpx.Client(headers=headers, timeout=_TIMEOUT, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def submit(self, handler: str, payload: str, **fields: object) -> Document:
        """Submits one job, `payload` being JSON text; repeated under one key until the answer is known."""
        named = {"handler": handler, **{name: value for name, value in fields.items() if value is not None}}
        named.setdefault("idempotency_key", str(uuid4()))
        # The payload goes in as the text it is: parsing it here could change its numbers.
        body = f'{json.dumps(named)[:-1]}, "payload": {payload}}}'
        return self._send("POST", "/api/v1/jobs", body, repeat=True)

    def submit_batch(self, jobs: Iterable[Mapping[str, object]]) -> Document:
        """Submits jobs that are stored all together or not at all."""
        keyed = [{"idempotency_key": str(uuid4()), **job} for job in jobs]
        return self._send("POST", "/api/v1/jobs/batch", json.dumps({"jobs": keyed}), repeat=True)

    def jobs(self, **query: object) -> Document:
        """One page of jobs: state, handler, queue, cursor, limit."""
        return self._get("/api/v1/jobs", query)

    def job(self, job_id: str) -> Document:
        """One job with its attempts and history."""
        return self._get(f"/api/v1/jobs/{job_id}")

    def cancel(self, job_id: str) -> Document:
        """Ends a live job."""
        return self._send("POST", f"/api/v1/jobs/{job_id}/cancel")

    def wait(self, job_id: str, timeout: float | None = None) -> Document:
        """The job once it has ended; WaitTimeout when that takes longer than `timeout` seconds."""
        until, pause = time.monotonic() + (float("inf") if timeout is None else timeout), 0.02
        while True:
            job = self.job(job_id)
            if job["state"] in ENDED:
                return job
            left = until - time.monotonic()
            if left <= 0:
                hint = f"it goes on; see it with `mutirao jobs show {job_id}`"
                raise WaitTimeout(f"the job {job_id} is still {job['state']}", hint=hint)
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 1.0)

    def dead_letters(self, **query: object) -> Document:
        """One page of dead letters: handler, queue, cursor, limit."""
        return self._get("/api/v1/dead-letters", query)

    def dead_letter(self, job_id: str) -> Document:
        """One dead job with its attempts and history."""
        return self._get(f"/api/v1/dead-letters/{job_id}")

    def replay(self, job_id: str) -> Document:
        """Queues a dead job again."""
        return self._send("POST", f"/api/v1/dead-letters/{job_id}/replay")

    def discard(self, job_id: str) -> Document:
        """Puts a dead job aside for good."""
        return self._send("POST", f"/api/v1/dead-letters/{job_id}/discard")

    def nodes(self) -> Document:
        """Every node."""
        return self._get("/api/v1/nodes")

    def status(self) -> Document:
        """The cluster at a glance."""
        return self._get("/api/v1/status")

    def _get(self, path: str, query: Mapping[str, object] | None = None) -> Document:
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        return self._send("GET", path, query=given, repeat=True)

    def _send(
        self,
        method: str,
        path: str,
        body: str | None = None,
        *,
        query: Mapping[str, str] | None = None,
        repeat: bool = False,
    ) -> Document:
        """One request; with `repeat`, again while the answer is 503 or lost."""
        for attempt in range(_TRIES - 1 if repeat else 0):
            try:
                return self._send_once(method, path, body, query)
            except Unavailable:
                time.sleep(0.25 * 2**attempt)
        return self._send_once(method, path, body, query)

    def _send_once(
        self, method: str, path: str, body: str | None, query: Mapping[str, str] | None
    ) -> Document:
        headers = {"Content-Type": "application/json"} if body is not None else {}
        content = None if body is None else body.encode("utf-8", "surrogatepass")
        try:
            response = self._http.request(
                method, self._url + path, content=content, params=query, headers=headers
            )
        except httpx.InvalidURL as error:
            raise InvalidInput("url", f"{self._url} is not a URL: {error}") from None
        except httpx.UnsupportedProtocol as error:
            raise InvalidInput("url", f"{self._url}: {error}", hint="begin it with http://") from None
        except httpx.TransportError as error:
            raise Unavailable(
                f"{self._url} does not answer: {error}", hint="is a node up? Name one with MUTIRAO_URL."
            ) from None
        return _document(response)


def _document(response: httpx.Response) -> Document:
    try:
        value = json.loads(response.text)
    except ValueError:
        raise Unavailable(f"{response.url.host} answered {response.status_code}, not in JSON") from None
    if response.is_success:
        return Document(response.text, value)
    raise _error(response.status_code, value)


def _error(status: int, problem: Mapping[str, Any]) -> MutiraoError:
    detail, hint = str(problem.get("detail", status)), str(problem.get("hint", ""))
    if status == 404:
        return NotFound(detail, hint=hint)
    if status == 409:
        return Conflict(detail, hint=hint)
    if status >= 500:
        return Unavailable(detail, hint=hint)
    wrong = [f"{one['field']}: {one['message']}" for one in problem.get("errors", []) if one.get("field")]
    return InvalidInput("", "; ".join(wrong) or detail, hint=hint)
