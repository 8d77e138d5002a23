"""The web application of one node."""

from __future__ import annotations

from flask import Flask, Response

from mutirao.services.services import Services, open_services
from mutirao.settings import Settings
from mutirao.web import health, problems
from mutirao.web.api import cluster, dead_letters, document, jobs
from mutirao.web.api.operations import Api
from mutirao.web.gate import Gate
from mutirao.web.pages import status

API = "/api/v1"

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}


class _App(Flask):
    def make_default_options_response(self) -> Response:
        """Says what the path allows, and nothing else."""
        allowed = sorted(super().make_default_options_response().allow)
        return Response(status=204, headers={"Allow": ", ".join(allowed)})


def create_app(settings: Settings, services: Services | None = None) -> Flask:
    """The application; it connects to nothing before it is asked something."""
    services = services or open_services(settings)
    app = _App("mutirao.web", static_folder="static", template_folder="templates")
    # A path has one spelling: nothing is redirected to another.
    app.url_map.merge_slashes = False
    # Problems are logged where they are turned into answers.
    app.logger.disabled = True
    health.measure(app)
    Gate(settings).install(app)
    problems.install(app)
    app.register_blueprint(_api(settings, services).blueprint(), url_prefix=API)
    app.register_blueprint(health.blueprint(services, settings.node_name))
    app.register_blueprint(status.blueprint(services, settings.node_name))
    app.after_request(_secure)
    return app


def _api(settings: Settings, services: Services) -> Api:
    api = Api()
    for part in (jobs, dead_letters, cluster):
        part.declare(api, services)
    document.declare(api, API, secured=settings.api_token is not None)
    return api


def _secure(response: Response) -> Response:
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    return response
