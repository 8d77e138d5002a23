"""What a caller may say about a new job: typed, strict, nothing unknown accepted (I9)."""

from __future__ import annotations

import difflib
import re
from typing import Annotated, Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mutirao.domain.job import LONGEST, MOST_RETRIES
from mutirao.errors import InvalidInput
from mutirao.services.fields import (
    AsciiKey,
    Id,
    Instant,
    Key,
    LetterCursor,
    Name,
    Seconds,
    Text,
    Whole,
)

MAX_BATCH = 10_000
MAX_PAYLOAD = 1 << 20
MAX_DECISIONS = 1000


class FieldError(BaseModel):
    """One refused field: its path and what is wrong with it."""

    field: str
    message: str


class Refused(InvalidInput):
    """An input with one or more wrong fields; `field` and `message` are the first one's."""

    def __init__(self, errors: list[FieldError], *, hint: str = "") -> None:
        super().__init__(errors[0].field, errors[0].message, hint=hint)
        self.errors = errors


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
    priority: Annotated[int, Field(ge=0, le=9), Whole] | None = None
    max_retries: Annotated[int, Field(ge=0, le=MOST_RETRIES), Whole] | None = None
    backoff: BackoffRequest | None = None
    timeout: Annotated[float, Field(gt=0, le=LONGEST)] | None = None
    run_at: Instant | None = None
    idempotency_key: Key | None = None


class BatchRequest(_Strict):
    """Jobs that are stored together or not at all."""

    jobs: Annotated[list[JobRequest], Field(min_length=1, max_length=MAX_BATCH)]


class KeyHeader(_Strict):
    """The header that stands for the field `idempotency_key`."""

    key: AsciiKey | None = Field(default=None, alias="Idempotency-Key")


class LettersById(_Strict):
    """The dead letters with these ids."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=MAX_DECISIONS)]


class LettersWanted(_Strict):
    """What is true of the dead letters that are meant; all of them when it says nothing."""

    handler: Name | None = None
    queue: Name | None = None
    error_type: Text | None = None


class LettersByFilter(_Strict):
    """The dead letters that fit a filter, the latest first, a page at a time."""

    filter: LettersWanted
    limit: Annotated[int, Field(ge=1, le=MAX_DECISIONS), Whole] = 100
    cursor: LetterCursor | None = None


Model = TypeVar("Model", bound=BaseModel)

# "String should have at most …", "Input should be …".
_SAID = re.compile(r"^\w+ should")
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
        unknown = [item["loc"] for item in found if item["type"] == "extra_forbidden"]
        raise Refused(errors, hint=_hint(model, unknown[0]) if unknown else "") from None


def _field_error(location: tuple[int | str, ...], kind: str, message: str) -> FieldError:
    plain = _PLAIN.get(kind) or _SAID.sub("must", message.removeprefix("Value error, "))
    return FieldError(field=".".join(map(str, location)), message=plain)


def _hint(model: type[BaseModel], unknown: tuple[int | str, ...]) -> str:
    for part in unknown[:-1]:
        if part in model.model_fields:
            model = _nested(model.model_fields[str(part)].annotation) or model
    known = list(model.model_fields)
    close = difflib.get_close_matches(str(unknown[-1]), known, n=1)
    return f"did you mean `{close[0]}`?" if close else f"known fields: {', '.join(known)}"


def _nested(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_nested, get_args(annotation))), None)
