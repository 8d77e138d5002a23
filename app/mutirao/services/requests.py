"""What a caller may say about a new job: typed, strict, nothing unknown accepted (I9)."""

from __future__ import annotations

import difflib
import re
from datetime import UTC, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from mutirao.errors import InvalidInput

YEAR = 366 * 86400.0
MAX_BATCH = 10_000
MAX_PAYLOAD = 1 << 20
NAME = r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,99}$"

_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)


class FieldError(BaseModel):
    """One refused field: its path and what is wrong with it."""

    field: str
    message: str


class Refused(InvalidInput):
    """An input with one or more wrong fields; `field` and `message` are the first one's."""

    def __init__(self, errors: list[FieldError], *, hint: str = "") -> None:
        super().__init__(errors[0].field, errors[0].message, hint=hint)
        self.errors = errors


def _instant(value: object) -> datetime:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be an ISO 8601 date and time such as 2026-01-31T08:00:00Z")
    try:
        parsed = datetime.fromisoformat(value.upper())
    except ValueError as error:
        raise ValueError(f"is not a date and time: {error}") from None
    if parsed.tzinfo is None:
        raise ValueError("needs an offset: end it with Z or +01:00")
    try:
        instant = parsed.astimezone(UTC)
    except OverflowError:
        raise ValueError("is out of range") from None
    if not 1970 <= instant.year <= 9998:
        raise ValueError("must be in the years 1970 to 9998")
    return instant


def _key(value: object) -> object:
    if isinstance(value, str) and any(character < " " or character == "\x7f" for character in value):
        raise ValueError("must not contain control characters")
    return value


Name = Annotated[str, Field(pattern=NAME, max_length=100)]
Seconds = Annotated[float, Field(ge=0, le=YEAR)]


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class BackoffRequest(_Strict):
    """Bounds of the wait before a retry, in seconds."""

    base: Seconds | None = None
    cap: Seconds | None = None


class JobRequest(_Strict):
    """One job as asked for; what is None comes from the handler's contract."""

    handler: Name
    payload: Any = Field(default_factory=dict)
    queue: Name | None = None
    priority: Annotated[int, Field(ge=0, le=9)] | None = None
    max_retries: Annotated[int, Field(ge=0, le=100)] | None = None
    backoff: BackoffRequest | None = None
    timeout: Annotated[float, Field(gt=0, le=YEAR)] | None = None
    run_at: Annotated[datetime | None, BeforeValidator(lambda v: None if v is None else _instant(v))] = None
    idempotency_key: Annotated[str, Field(min_length=1, max_length=255), BeforeValidator(_key)] | None = None


class BatchRequest(_Strict):
    """Jobs that are stored together or not at all."""

    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=MAX_BATCH)]


Model = TypeVar("Model", bound=BaseModel)

_PLAIN = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "model_type": "must be an object",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "string_pattern_mismatch": "must be 1 to 100 letters, digits, dots, underscores or hyphens, "
    "and begin with a letter or digit",
}


def validate(model: type[Model], document: object) -> Model:
    """The document as `model`, else Refused with every wrong field by its path."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        errors = [_field_error(item["loc"], item["type"], item["msg"]) for item in found[:100]]
        raise Refused(errors, hint=_unknown_hint(errors)) from None


def _field_error(location: tuple[int | str, ...], kind: str, message: str) -> FieldError:
    plain = _PLAIN.get(kind) or message.removeprefix("Value error, ").replace("Input should", "must")
    return FieldError(field=".".join(map(str, location)), message=plain)


def _unknown_hint(errors: list[FieldError]) -> str:
    for error in errors:
        if error.message == _PLAIN["extra_forbidden"]:
            known = [*JobRequest.model_fields, "jobs", "base", "cap"]
            close = difflib.get_close_matches(error.field.rpartition(".")[2], known, n=1)
            return f"did you mean `{close[0]}`?" if close else f"known fields: {', '.join(known[:-3])}"
    return ""
