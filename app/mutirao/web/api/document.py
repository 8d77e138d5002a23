"""The API's OpenAPI 3.1 document, put together from the declared operations and their types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import msgspec
from apispec import APISpec

import mutirao
from mutirao.web.api.operations import Answer, Api, Operation
from mutirao.web.api.schemas import Answered, Asked, parameters
from mutirao.web.problems import CONTENT_TYPE, Problem

VERSION = "3.1.0"

_PARAMETER = re.compile(r"<(?:(\w+):)?(\w+)>")
_PATH_TYPES = {"uuid": {"type": "string", "format": "uuid"}, "": {"type": "string", "minLength": 1}}
_BEARER = "bearer"

_HEADERS: Mapping[str, Mapping[str, Any]] = {
    "Location": {
        "description": "Where the job is.",
        "required": True,
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "Retry-After": {
        "description": "Seconds to wait.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "WWW-Authenticate": {"required": True, "schema": {"type": "string"}},
}
_PROBLEMS: Mapping[int, tuple[str, tuple[str, ...]]] = {
    400: ("the request is incomplete", ()),
    401: ("a token is asked for", ("WWW-Authenticate",)),
    403: ("a page of another site tried to change something", ()),
    404: ("there is no such thing", ()),
    413: ("the body is too large", ()),
    415: ("the body is not plain `application/json`", ()),
    421: ("the host is not one of `allowed_hosts`", ()),
    422: ("a field or parameter is wrong, or the JSON is not strict", ()),
    503: ("PostgreSQL cannot be reached, or did not say whether it committed: try again", ("Retry-After",)),
}
# What the HTTP server refuses before the application sees it, in no form of ours.
_UNREAD: Mapping[int, str] = {
    414: "the request's first line is longer than 8,190 bytes",
    431: "a header is longer than 16,380 bytes",
}


class Document(msgspec.Struct, frozen=True):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]
    security: list[Any]
    servers: list[Any]


def declare(api: Api, prefix: str, *, secured: bool) -> None:
    """The operation /openapi.json, which describes itself too."""

    @cache
    def document() -> Document:
        return describe(api.operations, prefix, secured=secured)

    @api.get("/openapi.json", Answer(Document, "this document"), stored=False)
    def show_document() -> Document:
        """Shows this description of the API."""
        return document()


def describe(operations: Sequence[Operation], prefix: str, *, secured: bool) -> Document:
    """The document of these operations; `secured` says that a token is asked for."""
    spec = APISpec(
        title="Mutirão",
        version=mutirao.__version__,
        openapi_version=VERSION,
        info={"description": "Submits jobs to a cluster and follows them. Any node answers for all of them."},
        security=[{_BEARER: []}] if secured else [{}, {_BEARER: []}],
        servers=[{"url": "/"}],
    )
    spec.components.security_scheme(_BEARER, {"type": "http", "scheme": "bearer"})
    for name, header in _HEADERS.items():
        spec.components.header(name, dict(header))
    described = _Operations(operations)
    for name, schema in described.components.items():
        spec.components.schema(name, schema)
    for status, (means, headers) in _PROBLEMS.items():
        spec.components.response(_problem_name(status), described.problem(means, headers))
    for status, means in _UNREAD.items():
        spec.components.response(_problem_name(status), {"description": means})
    for one in operations:
        path = prefix + _PARAMETER.sub(r"{\2}", one.path)
        spec.path(path, operations={one.method.lower(): described.operation(one)})
    return msgspec.convert(spec.to_dict(), Document)


class _Operations:
    """Describes operations that may point to each other."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._asked, self._answered = Asked(operations), Answered(operations)
        self._names = {_id(one): [name for _, name in _PARAMETER.findall(one.path)] for one in operations}
        self.components = {**self._answered.components, **self._asked.components}

    def operation(self, one: Operation) -> dict[str, Any]:
        """One operation: what it takes, and every answer."""
        answers = {str(answer.status): self._answer(answer) for answer in one.answers}
        own = {str(status): self.problem(means, ()) for status, means in one.refusals.items()}
        refusals = {str(status): _problem_name(status) for status in _refusals(one)}
        described: dict[str, Any] = {
            "operationId": _id(one),
            "summary": inspect.getdoc(one.view),
            "tags": [one.tag],
            "parameters": [*_path(one), *parameters(one.query, "query"), *parameters(one.headers, "header")],
            "responses": dict(sorted((answers | own | refusals).items())),
        }
        if one.body is not None:
            content = {"application/json": {"schema": self._asked.body(one.body.models)}}
            described["requestBody"] = {"required": True, "content": content}
        return described

    def problem(self, means: str, headers: Sequence[str]) -> dict[str, Any]:
        """An answer that is a problem."""
        content = {CONTENT_TYPE: {"schema": self._answered.of(Problem)}}
        return {"description": means, "content": content, "headers": {name: name for name in headers}}

    def _answer(self, answer: Answer) -> dict[str, Any]:
        return {
            "description": answer.means,
            "content": {"application/json": {"schema": self._answered.of(answer.type)}},
            "headers": {name: name for name in answer.headers},
            "links": {name: self._link(name, place) for name, place in answer.leads_to.items()},
        }

    def _link(self, operation: str, place: str) -> dict[str, Any]:
        (name,) = self._names[operation]
        return {"operationId": operation, "parameters": {name: f"$response.body#{place}"}}


def _id(one: Operation) -> str:
    first, *others = one.view.__name__.split("_")
    return first + "".join(word.title() for word in others)


def _problem_name(status: int) -> str:
    return f"Problem{status}"


def _refusals(one: Operation) -> Iterator[int]:
    yield from (401, 421, 422, *_UNREAD)
    if one.stored:
        yield 503
    if one.method != "GET":
        yield 403
    if _PARAMETER.search(one.path):
        yield 404
    if one.body is not None:
        yield from (400, 413, 415)


def _path(one: Operation) -> Iterator[dict[str, Any]]:
    for kind, name in _PARAMETER.findall(one.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATH_TYPES[kind]}
