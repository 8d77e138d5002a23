"""The node's own web server, and whether its port is free or its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import httpx

from mutirao.doctor.finding import Finding, fail, ok, warn
from mutirao.settings import Settings

_WITHIN = 3.0


def web(settings: Settings) -> Iterator[Finding]:
    """Asks it what its clients would ask."""
    with httpx.Client(base_url=settings.web_url, timeout=_WITHIN, trust_env=False) as client:
        try:
            found = _ask(client, settings, "/livez")
        except httpx.HTTPError as error:
            yield _silent(settings, error)
            return
        if found is None or "version" not in found:
            yield fail(
                "web.alive",
                f"something else answers at {settings.web_url}",
                "end it, or set another web_port",
            )
            return
        yield ok("web.alive", f"{settings.web_url} runs version {found['version']}")
        yield from _ready(client, settings)
        yield _token(client, settings)


def _ready(client: httpx.Client, settings: Settings) -> Iterator[Finding]:
    found = _ask(client, settings, "/readyz") or {}
    if found.get("node", settings.node_name) != settings.node_name:
        hint = "set web_url to this node's own address"
        yield warn("web.own", f"{settings.web_url} is answered by {found['node']}", hint)
    away = {name: one["detail"] for name, one in found.get("dependencies", {}).items() if not one["ok"]}
    if found.get("status") == "ready":
        yield ok("web.ready", "ready")
    else:
        judged = warn if found.get("status") == "degraded" else fail
        why = "; ".join(f"{name}: {detail}" for name, detail in away.items())
        yield judged("web.ready", f"{found.get('status', 'no answer')}: {why}", "mend what it names")


def _token(client: httpx.Client, settings: Settings) -> Finding:
    code = client.get("/api/v1/status", headers=_headers(settings)).status_code
    if code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        hint = "the web server has other settings than these: restart it, or name its --config"
        return fail("web.token", f"the API answers {code}", hint)
    if code == httpx.codes.MISDIRECTED_REQUEST:
        return fail("web.token", f"the API answers {code}", "add the host of web_url to allowed_hosts")
    return ok("web.token", "accepted" if settings.api_token else "none is asked for, on loopback")


def _ask(client: httpx.Client, settings: Settings, path: str) -> dict[str, Any] | None:
    answer = client.get(path, headers=_headers(settings))
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _headers(settings: Settings) -> dict[str, str]:
    token = settings.api_token
    return {"Authorization": f"Bearer {token.get_secret_value()}"} if token else {}


def _silent(settings: Settings, error: httpx.HTTPError) -> Finding:
    said = f"{settings.web_url} does not answer: {str(error) or type(error).__name__}"
    family = socket.AF_INET6 if ":" in settings.web_host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.web_host.strip("[]"), settings.web_port))
        except OSError as taken:
            hint = f"end what has port {settings.web_port} (ss -ltnp), or set another web_port"
            return fail("web.alive", f"{said}; its port: {taken.strerror}", hint)
    return warn("web.alive", f"{said}; its port is free", "start it: mutirao web --config FILE")
