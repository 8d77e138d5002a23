"""One way to declare an operation of the API: what it takes and answers is said once, and published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import unquote_to_bytes

from flask import Blueprint, Response, request
from pydantic import BaseModel

from mutirao.errors import InvalidInput
from mutirao.services.requests import validate
from mutirao.web import strict_json
from mutirao.web.bodies import MAX_BODY, answer, read_body, refuse_body

View = Callable[..., Any]
V = TypeVar("V", bound=View)
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Answer:
    """A good answer: its status, the type of its JSON, what it means, which headers it has.

    `leads_to` names operations about one thing, and where in the answer its id is.
    """

    type: Any
    means: str
    status: int = 200
    headers: tuple[str, ...] = ()
    leads_to: Mapping[str, str] = field(default_factory=dict)


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


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer other than the operation's first one."""

    value: Any
    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path; `refusals` are its own by status, in words; `stored` if it asks the store."""

    method: str
    path: str
    view: View
    tag: str
    answers: tuple[Answer, ...]
    query: type[BaseModel] | None
    headers: type[BaseModel] | None
    body: Body | None
    refusals: Mapping[int, str]
    stored: bool

    def carry_out(self, **arguments: Any) -> Response:
        """Reads what the operation takes, and refuses what it would ignore; then answers."""
        query = _query(self.query)
        if query is not None:
            arguments["query"] = query
        if self.headers is not None:
            arguments["headers"] = _headers(self.headers)
        if self.body is None:
            refuse_body()
        else:
            arguments["body"] = self.body.read()
        value = self.view(**arguments)
        reply = value if isinstance(value, Reply) else Reply(value, self.answers[0].status)
        return answer(reply.value, reply.status, dict(reply.headers))


def _query(model: type[BaseModel] | None) -> BaseModel | None:
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


def _headers(model: type[M]) -> M:
    names = [info.alias or name for name, info in model.model_fields.items()]
    return validate(model, {name: request.headers[name] for name in names if name in request.headers})


class Api:
    """The operations of the API, in the order they are declared."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []

    def get(self, path: str, *answers: Answer, **more: Any) -> Callable[[V], V]:
        """Declares a view that reads."""
        return self._declare("GET", path, answers, **more)

    def post(self, path: str, *answers: Answer, **more: Any) -> Callable[[V], V]:
        """Declares a view that changes something."""
        return self._declare("POST", path, answers, **more)

    def _declare(
        self,
        method: str,
        path: str,
        answers: tuple[Answer, ...],
        *,
        query: type[BaseModel] | None = None,
        headers: type[BaseModel] | None = None,
        body: Body | None = None,
        refusals: Mapping[int, str] | None = None,
        stored: bool = True,
    ) -> Callable[[V], V]:
        def declare(view: V) -> V:
            tag = path.split("/")[1]
            self.operations.append(
                Operation(method, path, view, tag, answers, query, headers, body, refusals or {}, stored)
            )
            return view

        return declare

    def blueprint(self) -> Blueprint:
        """The routes of all operations; OPTIONS and wrong methods are answered by the application."""
        routes = Blueprint("api", __name__)
        for one in self.operations:
            name = one.view.__name__
            routes.add_url_rule(one.path, name, one.carry_out, methods=[one.method])
        return routes
