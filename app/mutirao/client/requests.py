"""What is submitted: a job as its caller says it, as JSON text with a key that makes it safe to repeat."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime
from typing import Any
from uuid import uuid4

import msgspec

from mutirao.domain.job import Backoff
from mutirao.errors import InvalidInput

MAX_BATCH_BYTES = 16 << 20
_FRAME = len(b'{"jobs":[]}')


class InvalidValue(InvalidInput, ValueError):
    """A value that cannot be sent at all: not JSON, or a time without an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job to submit; what is None comes from the handler's contract.

    `payload` is any JSON value (or JSON text, as `msgspec.Raw`, sent as it is); `timeout` in seconds;
    `run_at` needs an offset.
    """

    handler: str
    payload: Any = field(default_factory=dict)
    queue: str | None = None
    priority: int | None = None
    max_retries: int | None = None
    backoff: Backoff | Mapping[str, float] | None = None
    timeout: float | None = None
    run_at: datetime | None = None
    idempotency_key: str | None = None

    def text(self, key: str | None = None) -> str:
        """The request's JSON under its own key, else `key`, else a new one; InvalidValue."""
        named = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "payload"}
        named["idempotency_key"] = self.idempotency_key or key or str(uuid4())
        if self.run_at is not None:
            named["run_at"] = instant("run_at", self.run_at)
        if isinstance(self.backoff, Backoff):
            named["backoff"] = asdict(self.backoff)
        said = ", ".join(
            f'"{name}": {to_json(value, name)}' for name, value in named.items() if value is not None
        )
        return f'{{{said}, "payload": {_payload(self.payload)}}}'


def to_json(value: object, name: str) -> str:
    """The value as strict JSON text; InvalidValue naming the field when it has none."""
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidValue(name, f"is no JSON value: {error}") from None


def request(job: Request | Mapping[str, Any]) -> Request:
    """The job as a Request; InvalidValue for a field there is not."""
    if isinstance(job, Request):
        return job
    try:
        return Request(**job)
    except TypeError as error:
        raise InvalidValue("", f"is no request: {error}") from None


def batches(texts: Iterable[str], size: int) -> Iterator[list[bytes]]:
    """The requests in order, `size` a batch at most and as many bytes as a web server takes."""
    batch: list[bytes] = []
    total = _FRAME
    for text in texts:
        encoded = encode(text)
        if batch and (len(batch) == size or total + len(encoded) + 1 > MAX_BATCH_BYTES):
            yield batch
            batch, total = [], _FRAME
        batch.append(encoded)
        total += len(encoded) + 1
    if batch:
        yield batch


def encode(text: str) -> bytes:
    """The text as it travels; a lone surrogate does too, since refusing it is the server's part."""
    return text.encode("utf-8", "surrogatepass")


def _payload(value: object) -> str:
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else to_json(value, "payload")


def instant(name: str, value: datetime) -> str:
    """The time as text; InvalidValue naming the field when it is none, or has no offset."""
    if not isinstance(value, datetime):
        raise InvalidValue(name, f"must be a datetime, not {type(value).__name__}")
    if value.utcoffset() is None:
        raise InvalidValue(name, "needs an offset: give it a tzinfo, such as datetime.UTC")
    return value.isoformat()
