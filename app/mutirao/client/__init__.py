"""The Python client: typed, over all addresses of a cluster, so that a dead node is no error."""

from mutirao.client.addresses import DEFAULT_URL
from mutirao.client.client import Client
from mutirao.client.requests import InvalidValue, Request
from mutirao.client.results import Attempt, AuditEntry, Changed, Job, JobFailed, Letter, Submitted
from mutirao.client.watching import WaitTimeout
from mutirao.domain.job import Backoff
from mutirao.domain.views import JobSummary, NodeView, Page

__all__ = [
    "DEFAULT_URL",
    "Attempt",
    "AuditEntry",
    "Backoff",
    "Changed",
    "Client",
    "InvalidValue",
    "Job",
    "JobFailed",
    "JobSummary",
    "Letter",
    "NodeView",
    "Page",
    "Request",
    "Submitted",
    "WaitTimeout",
]
