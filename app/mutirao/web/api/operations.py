"""One way to declare an operation of the API: what it takes and answers is said once, and published."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from flask import Blueprint, Response
from pydantic import BaseModel

from mutirao.web.api.reading import Body, read_headers, read_query
from mutirao.web.bodies import answer, refuse_body

View = Callable[..., Any]
V = TypeVar("V", bound=View)


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
        query = read_query(self.query)
        if query is not None:
            arguments["query"] = query
        if self.headers is not None:
            arguments["headers"] = read_headers(self.headers)
        if self.body is None:
            refuse_body()
        else:
            arguments["body"] = self.body.read()
        value = self.view(**arguments)
        reply = value if isinstance(value, Reply) else Reply(value, self.answers[0].status)
        return answer(reply.value, reply.status, dict(reply.headers))


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
