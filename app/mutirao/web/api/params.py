"""Query parameters: known ones only, each checked and named when refused."""

from __future__ import annotations

import re

from flask import request

from mutirao.domain.job import State
from mutirao.domain.views import JobFilter
from mutirao.errors import InvalidInput
from mutirao.services.requests import NAME

MAX_LIMIT = 500
_DEFAULT_LIMIT = 50
_NAME = re.compile(NAME)


def job_filter(*names: str) -> JobFilter:
    """The filter given by those of `names` that are in the query."""
    values = {name: request.args[name] for name in names if name in request.args}
    for name, value in values.items():
        if name == "state":
            if value not in set(State):
                raise InvalidInput(name, f"must be one of {', '.join(State)}")
        elif not _NAME.fullmatch(value):
            raise InvalidInput(name, "is not a possible name")
    return JobFilter(**values)


def page() -> tuple[str | None, int]:
    """The cursor and the limit of a list."""
    text = request.args.get("limit", str(_DEFAULT_LIMIT))
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LIMIT:
        raise InvalidInput("limit", f"must be an integer from 1 to {MAX_LIMIT}")
    return request.args.get("cursor"), int(text)


def only(*known: str) -> None:
    """Refuses parameters that would be ignored, and repeated ones."""
    for name, values in request.args.lists():
        if name not in known:
            raise InvalidInput(name[:100], "is not a known parameter", hint=f"known: {', '.join(known)}")
        if len(values) > 1:
            raise InvalidInput(name, "is given twice")
