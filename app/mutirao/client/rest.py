"""Every endpoint of the API, each answer as the document it is: what the command line prints with --json."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

from mutirao.client.answers import Document, Refused
from mutirao.client.requests import batches, encode, to_json
from mutirao.client.transport import Call, Transport
from mutirao.errors import InvalidInput, Unavailable

MAX_IDS = 100
MAX_BULK = 1000

_API = "/api/v1"
_JOBS, _LETTERS = f"{_API}/jobs", f"{_API}/dead-letters"


class Rest:
    """Talks to whichever node answers; `timeout` is in seconds, a call over all addresses."""

    def __init__(
        self,
        urls: str | Sequence[str] | None = None,
        token: str | None = None,
        *,
        timeout: float = 30.0,
        refused: float | None = None,
        waiting: Callable[[Unavailable], None] = lambda _: None,
    ) -> None:
        self._transport = Transport(urls, token, timeout=timeout, refused=refused, waiting=waiting)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._transport.close()

    def submit(self, text: str) -> Document:
        """Submits one request, JSON text that holds its idempotency key."""
        return self._transport.send(Call("POST", _JOBS, encode(text)))

    def submit_many(self, texts: Iterable[str], size: int) -> Iterator[Document]:
        """Submits requests in order, up to `size` together; all of such a batch are stored or none."""
        done = 0
        for batch in batches(texts, size):
            body = b'{"jobs":[' + b",".join(batch) + b"]}"
            try:
                yield self._transport.send(Call("POST", f"{_JOBS}/batch", body))
            except InvalidInput as error:
                raise _counted(error, done) from None
            done += len(batch)

    def jobs(self, **query: object) -> Document:
        """One page of jobs; a filtered one may be short, or empty, before the last."""
        return self._get(_JOBS, query)

    def summaries(self, ids: Sequence[str]) -> Document:
        """Those of the jobs that exist, up to MAX_IDS of them."""
        return self._get(f"{_JOBS}/summaries", {"ids": ",".join(ids)})

    def job(self, job_id: str) -> Document:
        """One job with its attempts and history."""
        return self._get(f"{_JOBS}/{job_id}")

    def cancel(self, job_id: str) -> Document:
        """Ends a live job; again is fine."""
        return self._transport.send(Call("POST", f"{_JOBS}/{job_id}/cancel"))

    def dead_letters(self, **query: object) -> Document:
        """One page of dead letters."""
        return self._get(_LETTERS, query)

    def dead_letter(self, job_id: str) -> Document:
        """One dead job with its attempts and history."""
        return self._get(f"{_LETTERS}/{job_id}")

    def replay(self, job_id: str) -> Document:
        """Queues a dead job again, once, however often the answer is lost."""
        return self._decide(job_id, "replay", "replayed", "queued")

    def discard(self, job_id: str) -> Document:
        """Puts a dead job aside for good."""
        return self._decide(job_id, "discard", "discarded", "dead")

    def decide_many(self, verb: str, wanted: Mapping[str, object]) -> Document:
        """`replay` or `discard` of many dead letters: {"ids"} or {"filter", "limit", "cursor"}."""
        return self._transport.send(Call("POST", f"{_LETTERS}/{verb}", encode(to_json(wanted, "wanted"))))

    def handlers(self) -> Document:
        """Every handler's published contract."""
        return self._get(f"{_API}/handlers")

    def handler(self, name: str) -> Document:
        """One handler's published contract."""
        return self._get(f"{_API}/handlers/{quote(name, safe='')}")

    def audit(self, **query: object) -> Document:
        """One page of the audit log, the newest entry first."""
        return self._get(f"{_API}/audit", query)

    def nodes(self) -> Document:
        """Every node."""
        return self._get(f"{_API}/nodes")

    def status(self) -> Document:
        """The cluster at a glance."""
        return self._get(f"{_API}/status")

    def _get(self, path: str, query: Mapping[str, object] | None = None) -> Document:
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        return self._transport.send(Call("GET", path, query=given))

    def _decide(self, job_id: str, verb: str, event: str, state: str) -> Document:
        """A decision about the death at this attempt: a job that died once more is another matter."""
        attempt = self.job(job_id)["attempt"]

        def made() -> Document | None:
            entries: list[dict[str, Any]] = self.job(job_id)["audit"]
            if any(entry["event"] == event and entry["attempt"] == attempt for entry in entries):
                value = {"id": job_id, "state": state}
                return Document(to_json(value, "answer"), value)
            return None

        path = f"{_LETTERS}/{job_id}/{verb}"
        return self._transport.send(Call("POST", path, query={"attempt": str(attempt)}, made=made))


def _counted(error: InvalidInput, done: int) -> InvalidInput:
    """The error with the place of its job among all that were submitted."""
    match error.field.split("."):
        case ["jobs", number, *rest] if number.isdecimal():
            field = ".".join(["jobs", str(done + int(number)), *rest])
        case _:
            field = error.field
    # The other fields that are wrong may be other jobs': one is told well.
    message = error.errors[0]["message"] if isinstance(error, Refused) else error.message
    told = InvalidInput(field, message, hint=error.hint)
    if done:
        told.add_note(f"the {done} jobs before this batch are stored")
    return told
