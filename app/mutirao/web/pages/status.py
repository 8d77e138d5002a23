"""The status page of one node: who it is, who leads, how the cluster does."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from flask import Blueprint, Response, make_response, render_template, request

import mutirao
from mutirao.domain.views import NodeView, StatusView
from mutirao.errors import Unavailable
from mutirao.services.services import Services
from mutirao.web import i18n
from mutirao.web.problems import RETRY_AFTER


def blueprint(services: Services, node_name: str) -> Blueprint:
    """The route /."""
    routes = Blueprint("status", __name__)

    @routes.get("/")
    def status() -> Response:
        try:
            found = services.insights.status()
        except Unavailable:
            # The page still says who it is and what is wrong.
            response = _render(node_name, None)
            response.status_code = 503
            response.headers["Retry-After"] = RETRY_AFTER
            return response
        return _render(node_name, found)

    return routes


def _render(node_name: str, found: StatusView | None) -> Response:
    lang = i18n.language()
    page = render_template(
        "status.html",
        _=i18n.translator(lang),
        lang=lang,
        languages=i18n.LANGUAGES,
        number=partial(i18n.number, lang=lang),
        instant=i18n.instant,
        refreshing=request.args.get("refresh") == "5",
        node_name=node_name,
        version=mutirao.__version__,
        now=datetime.now(UTC),
        status=found,
        me=_this_node(node_name, found),
    )
    response = make_response(page)
    response.headers["Content-Language"] = lang
    response.headers["Vary"] = "Accept-Language"
    return response


def _this_node(name: str, found: StatusView | None) -> NodeView | None:
    return next((node for node in found.nodes if node.name == name), None) if found else None
