"""The cluster over REST: its status, nodes, handlers and audit log."""

from __future__ import annotations

from mutirao.domain.views import AuditFilter, ContractView, StatusView
from mutirao.errors import NotFound
from mutirao.services.services import Services
from mutirao.web.api.answers import AuditPage, Handlers, Nodes
from mutirao.web.api.operations import Answer, Api
from mutirao.web.api.queries import AuditQuery


def declare(api: Api, services: Services) -> None:
    """The operations /status, /nodes, /handlers and /audit."""

    @api.get("/status", Answer(StatusView, "the cluster at a glance"))
    def show_status() -> StatusView:
        """Shows the cluster at a glance."""
        return services.insights.status()

    @api.get("/nodes", Answer(Nodes, "every node"))
    def list_nodes() -> Nodes:
        """Lists the nodes."""
        return Nodes(services.insights.nodes())

    @api.get("/handlers", Answer(Handlers, "every handler", leads_to={"showHandler": "/handlers/0/handler"}))
    def list_handlers() -> Handlers:
        """Lists the published handlers with their contracts."""
        return Handlers(services.insights.contracts())

    @api.get("/handlers/<name>", Answer(ContractView, "its contract"))
    def show_handler(name: str) -> ContractView:
        """Shows one handler's contract."""
        for contract in services.insights.contracts():
            if contract.handler == name:
                return contract
        raise NotFound(f"no handler is named {name[:100]!r}")

    @api.get("/audit", Answer(AuditPage, "a page"), query=AuditQuery)
    def list_audit(query: AuditQuery) -> AuditPage:
        """Lists the audit log, the newest entry first."""
        wanted = AuditFilter(job_id=query.job_id, event=query.event, actor=query.actor, node=query.node)
        found = services.lists.audit(wanted, query.cursor, query.limit)
        return AuditPage(found.items, found.next_cursor)
