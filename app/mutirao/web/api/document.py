"""The API's OpenAPI 3.1 document, put together from the declared operations and their types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from apispec import APISpec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import mutirao
from mutirao.web.api.operations import Answer, Api, Operation
from mutirao.web.problems import CONTENT_TYPE, Problem

VERSION = "3.1.0"

_REFERENCE = "#/components/schemas/"
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
        return msgspec.convert(describe(api, prefix, secured=secured), Document)

    @api.get("/openapi.json", Answer(Document, "this document"), stored=False)
    def show_document() -> Document:
        """Shows this description of the API."""
        return document()


def describe(api: Api, prefix: str, *, secured: bool) -> dict[str, Any]:
    """The document of all operations; `secured` says that a token is asked for."""
    spec = APISpec(
        title="Mutirão",
        version=mutirao.__version__,
        openapi_version=VERSION,
        info={"description": "Submits jobs to a cluster and follows them. Any node answers for all of them."},
        security=[{_BEARER: []}] if secured else [{}, {_BEARER: []}],
        servers=[{"url": "/"}],
    )
    spec.components.security_scheme(_BEARER, {"type": "http", "scheme": "bearer"})
    models, types = _Models(api.operations), _Types(api.operations)
    for name, schema in {**types.components, **models.components}.items():
        spec.components.schema(name, schema)
    for name, header in _HEADERS.items():
        spec.components.header(name, dict(header))
    for status, (means, headers) in _PROBLEMS.items():
        spec.components.response(f"Problem{status}", _problem(types, means, headers))
    for one in api.operations:
        path = prefix + _PARAMETER.sub(r"{\2}", one.path)
        spec.path(path, operations={one.method.lower(): _operation(one, models, types)})
    document: dict[str, Any] = spec.to_dict()
    return document


class _Models:
    """The JSON Schemas of what is asked."""

    def __init__(self, operations: list[Operation]) -> None:
        bodies = {model for one in operations if one.body for model in one.body.models}
        ordered = sorted(bodies, key=lambda model: model.__name__)
        self._of, definitions = models_json_schema(
            [(model, "validation") for model in ordered], ref_template=_REFERENCE + "{model}"
        )
        self.components: dict[str, Any] = definitions.get("$defs", {})

    def body(self, models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
        """What a body of one of these models is."""
        schemas = [self._of[model, "validation"] for model in models]
        return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}


class _Types:
    """The JSON Schemas of what is answered."""

    def __init__(self, operations: list[Operation]) -> None:
        types = [Problem, *(answer.type for one in operations for answer in one.answers)]
        schemas, self.components = msgspec.json.schema_components(types, ref_template=_REFERENCE + "{name}")
        self._of: dict[Any, dict[str, Any]] = dict(zip(types, schemas, strict=True))

    def of(self, kind: Any) -> dict[str, Any]:
        """What a value of this type is."""
        return self._of[kind]


def _operation(one: Operation, models: _Models, types: _Types) -> dict[str, Any]:
    words = one.view.__name__.split("_")
    described: dict[str, Any] = {
        "operationId": words[0] + "".join(word.title() for word in words[1:]),
        "summary": inspect.getdoc(one.view),
        "tags": [one.tag],
        "parameters": [*_path(one), *_given(one.query, "query"), *_given(one.headers, "header")],
        "responses": {str(answer.status): _answer(answer, types) for answer in one.answers},
    }
    if one.body is not None:
        content = {"application/json": {"schema": models.body(one.body.models)}}
        described["requestBody"] = {"required": True, "content": content}
    for status in sorted(_refusals(one)):
        described["responses"][str(status)] = f"Problem{status}"
    for status, means in one.refusals.items():
        described["responses"][str(status)] = _problem(types, means, ())
    return described


def _refusals(one: Operation) -> Iterator[int]:
    yield from (401, 421, 422)
    if one.stored:
        yield 503
    if one.method != "GET":
        yield 403
    if _PARAMETER.search(one.path):
        yield 404
    if one.body is not None:
        yield from (400, 413, 415)


def _answer(answer: Answer, types: _Types) -> dict[str, Any]:
    described: dict[str, Any] = {
        "description": answer.means,
        "content": {"application/json": {"schema": types.of(answer.type)}},
    }
    return described | _with_headers(answer.headers)


def _problem(types: _Types, means: str, headers: tuple[str, ...]) -> dict[str, Any]:
    content = {CONTENT_TYPE: {"schema": types.of(Problem)}}
    return {"description": means, "content": content} | _with_headers(headers)


def _with_headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {"headers": {name: name for name in names}} if names else {}


def _path(one: Operation) -> Iterator[dict[str, Any]]:
    for kind, name in _PARAMETER.findall(one.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATH_TYPES[kind]}


def _given(model: type[BaseModel] | None, where: str) -> Iterator[dict[str, Any]]:
    schema = {} if model is None else model.model_json_schema()
    for name, field in schema.get("properties", {}).items():
        described = {"in": where, "name": name, "required": False, "schema": _never_null(field)}
        if "description" in field:
            described["description"] = field["description"]
        if described["schema"].get("type") == "array":
            described |= {"style": "form", "explode": False}
        yield described


def _never_null(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter's value: it is left out instead of being null."""
    null = {"type": "null"}
    schema = next((choice for choice in field.get("anyOf", []) if choice != null), field)
    return {name: value for name, value in schema.items() if name not in {"title", "description"}}
