"""The cluster over REST: its nodes and its status."""

from __future__ import annotations

from flask import Blueprint, Response

from mutirao.services.services import Services
from mutirao.web.api import params
from mutirao.web.bodies import answer


def blueprint(services: Services) -> Blueprint:
    """The routes /api/v1/nodes and /api/v1/status."""
    routes = Blueprint("cluster", __name__)

    @routes.get("/nodes")
    def nodes() -> Response:
        params.only()
        return answer({"nodes": services.insights.nodes()})

    @routes.get("/status")
    def status() -> Response:
        params.only()
        return answer(services.insights.status())

    return routes
