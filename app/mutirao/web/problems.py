"""Every error as `application/problem+json`: what is wrong, in which field, and what to do about it."""

from __future__ import annotations

from http import HTTPStatus

import msgspec
from flask import Flask, Response
from werkzeug.exceptions import HTTPException, MethodNotAllowed

from mutirao.errors import Conflict, InvalidInput, MutiraoError, NotFound, Unavailable
from mutirao.logs import get_logger
from mutirao.services.requests import Refused

log = get_logger(__name__)

RETRY_AFTER = "2"
CONTENT_TYPE = "application/problem+json"

_LONGEST_PATH = 300

_STATUS: tuple[tuple[type[MutiraoError], int], ...] = (
    (InvalidInput, 422),
    (NotFound, 404),
    (Conflict, 409),
    (Unavailable, 503),
)


class WrongField(msgspec.Struct, frozen=True):
    """One refused field: its path (`jobs.3.payload.path`) and what is wrong with it."""

    field: str
    message: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is wrong (RFC 9457), in which fields, and what to do about it."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[WrongField] = []
    hint: str = ""


def problem(
    status: int,
    detail: str,
    *,
    code: str = "",
    errors: list[WrongField] | None = None,
    hint: str = "",
    headers: dict[str, str] | None = None,
) -> Response:
    """One problem; `errors` name the fields, `hint` says what to do."""
    title = HTTPStatus(status).phrase
    kind = f"urn:mutirao:problem:{code or title.lower().replace(' ', '_')}"
    body = Problem(kind, title, status, detail, errors or [], hint)
    return Response(msgspec.json.encode(body), status, headers, content_type=CONTENT_TYPE)


def install(app: Flask) -> None:
    """Makes the application answer every error with a problem."""
    app.register_error_handler(MutiraoError, _ours)
    app.register_error_handler(HTTPException, _http)


def _ours(error: MutiraoError) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    if status == 500:
        log.error("request_failed", code=error.code, message=error.message)
    return problem(
        status,
        _detail(error),
        code=error.code,
        errors=_fields(error),
        hint=error.hint,
        headers={"Retry-After": RETRY_AFTER} if status == 503 else None,
    )


def _fields(error: MutiraoError) -> list[WrongField]:
    if isinstance(error, Refused):
        return [WrongField(_short(one.field), one.message) for one in error.errors]
    return [WrongField(_short(error.field), error.message)] if isinstance(error, InvalidInput) else []


def _detail(error: MutiraoError) -> str:
    if isinstance(error, InvalidInput) and error.field:
        return f"{_short(error.field)}: {error.message}"
    return error.message


def _short(path: str) -> str:
    # The caller chose its names, and their length.
    return path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"


def _http(error: HTTPException) -> Response:
    status = error.code or 500
    cause = getattr(error, "original_exception", None)
    if cause is not None:
        log.error("request_crashed", exc_info=cause)
    headers = {k: v for k, v in error.get_headers() if k in {"WWW-Authenticate", "Retry-After"}}
    if isinstance(error, MethodNotAllowed):
        headers["Allow"] = ", ".join(sorted(error.valid_methods or ()))
    return problem(status, error.description or "", headers=headers)
