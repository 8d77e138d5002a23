"""Who may ask at all: known host names, no other site's pages, and the token where one is set."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from flask import Flask, Response, g, request

from mutirao.services.access import Access
from mutirao.settings import Settings
from mutirao.web.problems import problem

_OPEN = "/livez"
# Tells a stranger its status alone.
_TERSE = "/readyz"
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]{0,5})?", re.ASCII)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class Gate:
    """Runs before every request; answers itself what must not get further."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = frozenset(map(_name, settings.allowed_hosts)) - {""}
        self._access = Access(settings.api_token)

    def install(self, app: Flask) -> None:
        """Puts the gate in front of the application."""
        app.before_request(self._check)

    def _check(self) -> Response | None:
        if request.path == _OPEN:
            return None
        return self._host() or self._origin() or self._authorization()

    def _host(self) -> Response | None:
        # A target with a host of its own (`GET http://host/path`) says a second time who is meant.
        target = request.environ.get("RAW_URI", "/")
        hosts = [request.environ.get("HTTP_HOST", ""), *([] if target[:1] in "/*" else [_authority(target)])]
        host = next((host for host in hosts if _name(host) not in self._hosts), None)
        if host is None:
            return None
        return problem(
            421,
            f"this server does not answer for the host {host[:100]!r}",
            hint="name it in the setting `allowed_hosts`",
        )

    def _origin(self) -> Response | None:
        if request.method in _SAFE:
            return None
        origin = request.headers.get("Origin")
        foreign = origin is not None and _authority(origin) != request.environ.get("HTTP_HOST")
        if not foreign and request.headers.get("Sec-Fetch-Site") != "cross-site":
            return None
        return problem(403, "a page of another site may not change anything here", code="foreign_origin")

    def _authorization(self) -> Response | None:
        g.trusted = self._access.granted(request.headers.get("Authorization", ""))
        if g.trusted or request.path == _TERSE:
            return None
        # A browser asks its user only for a scheme it knows: for the pages, not for programs.
        scheme = "Bearer" if request.path.startswith("/api/") else 'Basic realm="mutirao", charset="UTF-8"'
        return problem(
            401,
            "a valid token is required",
            code="unauthorized",
            hint="send `Authorization: Bearer TOKEN`; the command line reads MUTIRAO_TOKEN",
            headers={"WWW-Authenticate": scheme},
        )


def _authority(url: str) -> str:
    """The `name:port` of a URL; empty if it has none, or is none."""
    try:
        return urlsplit(url).netloc
    except ValueError:
        return ""


def _name(host: str) -> str:
    """The name or address in `name:port`, in its one spelling; empty if it is none."""
    found = _HOST.fullmatch(host.strip().lower())
    if found is None:
        return ""
    name = found[1]
    try:
        return str(ipaddress.ip_address(name.strip("[]")))
    except ValueError:
        return "" if name.startswith("[") else name.removesuffix(".")
