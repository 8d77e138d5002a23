"""Every Redis key and channel name; nothing else builds one."""

from __future__ import annotations

from uuid import UUID

PREFIX = "mutirao:"

LEADER = f"{PREFIX}leader"

COORDINATOR_CHANNEL = f"{PREFIX}wake:coordinator"
CANCEL_CHANNEL = f"{PREFIX}wake:cancel"


def beat(node: UUID) -> str:
    """String: the node's latest counter, or a placeholder that an observer put where it was missing."""
    return f"{PREFIX}beat:{node}"


def job_lock(job: UUID) -> str:
    """String: attempt:node:incarnation of whoever may execute the job."""
    return f"{PREFIX}lock:job:{job}"


def node_channel(node: UUID) -> str:
    """Channel: something was assigned to the node, or wants its attention."""
    return f"{PREFIX}wake:node:{node}"


def bench(number: int) -> str:
    """String: one of the keys that a benchmark sets and removes."""
    return f"{PREFIX}bench:{number}"
