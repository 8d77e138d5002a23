"""One attempt inside a runner: payload in, handler run, report out, whatever the handler raises."""

from __future__ import annotations

import traceback
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import UUID

import msgspec

from mutirao.agent.frames import Report
from mutirao.agent.inbox import Work
from mutirao.context import Context, Discard, Link, Retry
from mutirao.contract import Failure, PayloadRefused, ResultRefused
from mutirao.domain.job import Outcome
from mutirao.registry import Registry

_MESSAGE, _TRACEBACK = 4096, 16384
_NAME, _MOST_DETAILS, _EXACT = 100, 20, 1 << 53
_SECOND = 1e9
_OURS = Path(__file__).parents[1]

_encode_json = msgspec.json.Encoder().encode


def execute(
    registry: Registry, sequence: int, work: Work, payload: bytes, started: float, link: Link
) -> Report:
    """Runs the attempt and says how it ended; raises nothing."""
    try:
        result = _run(registry, work, payload, started, link)
    except PayloadRefused as error:
        return _failure(sequence, started, error, outcome=Outcome.REFUSED, field=error.field)
    except Retry as error:
        return _failure(sequence, started, error, retry_after=error.after)
    except (Discard, ResultRefused) as error:
        return _failure(sequence, started, error, discard=True)
    except BaseException as error:  # noqa: BLE001 (a handler's SystemExit is a failure like others)
        return _failure(sequence, started, error)
    return Report(sequence, started, 0.0, Outcome.SUCCEEDED, result)


def _run(registry: Registry, work: Work, payload: bytes, started: float, link: Link) -> bytes:
    bound = registry.bound(work.handler)
    if bound is None:
        raise LookupError(f"this node has no handler {work.handler!r}")
    value = bound.parse(payload)
    context = Context(UUID(bytes=work.job), work.attempt, started + work.timeout, link)
    return bound.call(value, context)


def _failure(
    sequence: int,
    started: float,
    error: BaseException,
    *,
    outcome: Outcome = Outcome.FAILED,
    field: str | None = None,
    retry_after: float | None = None,
    discard: bool = False,
) -> Report:
    described = describe(error, field)
    return Report(sequence, started, 0.0, outcome, None, described, retry_after, discard)


def describe(error: BaseException, field: str | None = None) -> bytes:
    """The error as a JSON object that jsonb takes: bounded, no NUL, no lone surrogate."""
    parts: dict[str, Any] = {"type": type(error).__qualname__, "message": _message(error)}
    if field is not None:
        parts["field"] = _storable(field, _MESSAGE)
    elif isinstance(error, Failure):
        parts = _details(error) | parts
    if field is None and not _speaks_for_itself(error):
        parts["traceback"] = _traceback(error)
    return _encode_json(parts)


def _speaks_for_itself(error: BaseException) -> bool:
    if isinstance(error, Failure) and not error.details:
        return error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
    return isinstance(error, Failure | ResultRefused)


def _details(error: Failure) -> dict[str, Any]:
    try:
        return {
            _storable(str(name), _NAME): value
            if isinstance(value, int | float) and abs(value) < _EXACT
            else _storable(str(value), _MESSAGE)
            for name, value in list(error.details.items())[:_MOST_DETAILS]
        }
    except BaseException:  # noqa: BLE001 (what a handler gives as details may be none, or break like this)
        return {}


def _message(error: BaseException) -> str:
    try:
        return _storable(str(error), _MESSAGE)
    except BaseException:  # noqa: BLE001 (a handler's exception may break in its own __str__)
        return ""


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(type(error), error, _from_the_handler(error)))
    except BaseException:  # noqa: BLE001 (as above)
        return ""
    return _storable(text[-_TRACEBACK:], _TRACEBACK)


def _from_the_handler(error: BaseException) -> TracebackType | None:
    """The traceback less what leads to the handler, which tells its author nothing; whole if all is ours."""
    step = error.__traceback__
    while step is not None and Path(step.tb_frame.f_code.co_filename).is_relative_to(_OURS):
        step = step.tb_next
    return step or error.__traceback__


def _storable(text: str, most: int) -> str:
    """At most so many characters, with the replacement character for what PostgreSQL cannot store."""
    clean = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace").replace("\0", "\ufffd")
    return clean if len(clean) <= most else clean[: most - 1] + "…"
