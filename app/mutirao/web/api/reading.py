"""Reading a request as the models of its operation: strictly, and nothing that would be ignored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import unquote_to_bytes

from flask import request
from pydantic import BaseModel

from mutirao.errors import InvalidInput
from mutirao.services.requests import validate
from mutirao.web import strict_json
from mutirao.web.bodies import MAX_BODY, read_body

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Body:
    """A JSON body of one of these models, told apart by their required fields, of at most `limit` bytes."""

    models: tuple[type[BaseModel], ...]
    limit: int = MAX_BODY

    def read(self) -> Received[BaseModel]:
        """The request's body; the errors name what is wrong with it."""
        raw = read_body(self.limit)
        document = strict_json.parse(raw)
        return Received(validate(self._fitting(document), document), raw)

    def _fitting(self, document: object) -> type[BaseModel]:
        given = document if isinstance(document, dict) else {}
        named = (model for model in self.models if _required(model) & given.keys())
        return next(named, self.models[0])


def _required(model: type[BaseModel]) -> set[str]:
    return {name for name, info in model.model_fields.items() if info.is_required()}


@dataclass(frozen=True, slots=True)
class Received(Generic[M]):
    """A body as its model, and the bytes it came in."""

    value: M
    raw: bytes


def read_query(model: type[BaseModel] | None) -> BaseModel | None:
    """The query as `model`: no other parameters, which would be ignored, and none twice."""
    try:
        unquote_to_bytes(request.query_string).decode()
    except UnicodeDecodeError:
        raise InvalidInput("", "the query is not UTF-8") from None
    known = [] if model is None else list(model.model_fields)
    for name, values in request.args.lists():
        if name not in known:
            hint = f"known: {', '.join(known)}" if known else "this operation takes no parameters"
            raise InvalidInput(name[:100], "is not a known parameter", hint=hint)
        if len(values) > 1:
            raise InvalidInput(name, "is given twice")
    return None if model is None else validate(model, request.args.to_dict())


def read_headers(model: type[M]) -> M:
    """Those of the request's headers that `model` names."""
    names = [info.alias or name for name, info in model.model_fields.items()]
    return validate(model, {name: request.headers[name] for name in names if name in request.headers})
