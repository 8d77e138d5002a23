"""`http`: one HTTP request to a host that the operator allows, repeated for what may pass, and only then."""

from __future__ import annotations

from collections.abc import Sequence

from mutirao.contract import Context, Discard, HandlerDefaults, Retry
from mutirao.handlers.http_message import Request, Response
from mutirao.hosts import HostRules

_EXCERPT = 1000


class Http:
    """Sends one HTTP request, with the job's id as its Idempotency-Key.

    5xx, 408, 429 and whatever goes wrong on the way are tried again, Retry-After being heeded; any other
    status that is not expected, and hosts that are not allowed, are not.
    """

    name = "http"
    payload_type = Request
    result_type = Response
    defaults = HandlerDefaults(timeout=60.0)

    def __init__(self, hosts: Sequence[str]) -> None:
        self._rules = HostRules(hosts)

    def run(self, payload: Request, context: Context) -> Response:
        """The answer, if its status is expected."""
        # The client's memory is spent by runners that have such a job.
        from mutirao.handlers.http_exchange import exchange  # noqa: PLC0415

        response, after = exchange(payload, context, self._rules)
        if payload.expects(response.status):
            return response
        message = f"{payload.method} {response.url}: status {response.status}"
        details = {"status": response.status, "body": response.body[:_EXCERPT]}
        if response.status in {408, 429} or response.status >= 500:
            raise Retry(message, after, details=details)
        raise Discard(message, details=details)
