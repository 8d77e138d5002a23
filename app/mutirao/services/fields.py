"""The values that callers send, each checked one way wherever it appears."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from mutirao.domain.job import LONGEST, QUEUE_NAME
from mutirao.store.lists import ENTRY_CURSOR, JOB_CURSOR, LETTER_CURSOR

_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,9})?)?"
    r"([Zz]|[+-][0-9]{2}:?[0-9]{2})?"
)


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


def _id(value: object) -> UUID:
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise ValueError("must be an id such as 01890a5d-ac96-774b-bcce-b302099a8057")
    return UUID(value)


def _integral(value: object) -> object:
    # JSON Schema takes 5.0 for an integer, and so does the API's document.
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _printable(value: str) -> str:
    if any(character < " " or character == "\x7f" for character in value):
        raise ValueError("must not contain control characters")
    return value


def _ascii(value: str) -> str:
    if not value.isascii():
        raise ValueError("must be ASCII; send other keys as the field idempotency_key")
    return value


def _cursor(pattern: str) -> AfterValidator:
    def check(value: str) -> str:
        if not re.fullmatch(pattern, value, re.ASCII):
            raise ValueError("is not a cursor of this list")
        return value

    return AfterValidator(check)


Whole = BeforeValidator(_integral)


def _text(most: int, pattern: str = r"^[^\x00-\x1f\x7f]+$") -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": 1, "maxLength": most, "pattern": pattern})


Name = Annotated[str, Field(pattern=QUEUE_NAME, max_length=100)]
Id = Annotated[UUID, BeforeValidator(_id), WithJsonSchema({"type": "string", "format": "uuid"})]
Instant = Annotated[
    datetime, BeforeValidator(_instant), WithJsonSchema({"type": "string", "format": "date-time"})
]
Text = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable), _text(200)]
Key = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_printable), _text(255)]
AsciiKey = Annotated[Key, AfterValidator(_ascii), _text(255, "^[!-~]([ -~]*[!-~])?$")]
JobCursor = Annotated[str, Field(json_schema_extra={"pattern": JOB_CURSOR}), _cursor(JOB_CURSOR)]
LetterCursor = Annotated[str, Field(json_schema_extra={"pattern": LETTER_CURSOR}), _cursor(LETTER_CURSOR)]
EntryCursor = Annotated[str, Field(json_schema_extra={"pattern": ENTRY_CURSOR}), _cursor(ENTRY_CURSOR)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST)]
