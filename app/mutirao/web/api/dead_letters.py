"""Dead letters over REST: list, show, replay, discard."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, Response

from mutirao.services.services import Services
from mutirao.web.api import params
from mutirao.web.api.jobs import ACTOR
from mutirao.web.bodies import answer


def blueprint(services: Services) -> Blueprint:
    """The routes under /api/v1/dead-letters."""
    routes = Blueprint("dead_letters", __name__)

    @routes.get("/dead-letters")
    def list_dead_letters() -> Response:
        params.only("handler", "queue", "cursor", "limit")
        wanted, (cursor, limit) = params.job_filter("handler", "queue"), params.page()
        found = services.insights.dead_letters(wanted, cursor, limit)
        return answer({"dead_letters": found.items, "next_cursor": found.next_cursor})

    @routes.get("/dead-letters/<uuid:job_id>")
    def show(job_id: UUID) -> Response:
        params.only()
        return answer(services.jobs.dead_letter(job_id))

    @routes.post("/dead-letters/<uuid:job_id>/replay")
    def replay(job_id: UUID) -> Response:
        params.only()
        return answer(services.jobs.replay(job_id, actor=ACTOR))

    @routes.post("/dead-letters/<uuid:job_id>/discard")
    def discard(job_id: UUID) -> Response:
        params.only()
        return answer(services.jobs.discard(job_id, actor=ACTOR))

    return routes
