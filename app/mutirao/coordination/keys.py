"""Every Redis key and channel name; nothing else builds one."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of one cluster; clusters with different prefixes can share a server and never meet.

    Channels need the prefix most: they are the same in every numbered database of a server.
    """

    prefix: str = "mutirao"

    @property
    def leader(self) -> str:
        """String: node:incarnation:nonce of whoever may try to take the term."""
        return f"{self.prefix}:leader"

    @property
    def coordinator_channel(self) -> str:
        """Channel: there is something to plan."""
        return f"{self.prefix}:wake:coordinator"

    @property
    def cancel_channel(self) -> str:
        """Channel: these running jobs are to end."""
        return f"{self.prefix}:wake:cancel"

    def beat(self, node: UUID) -> str:
        """String: the node's latest counter, or a placeholder that an observer put where it was missing."""
        return f"{self.prefix}:beat:{node}"

    def job_lock(self, job: UUID) -> str:
        """String: attempt:node:incarnation of whoever may execute the job."""
        return f"{self.prefix}:lock:job:{job}"

    def node_channel(self, node: UUID) -> str:
        """Channel: something was assigned to the node, or wants its attention."""
        return f"{self.prefix}:wake:node:{node}"

    def bench(self, number: int) -> str:
        """String: one of the keys that a benchmark sets and removes."""
        return f"{self.prefix}:bench:{number}"

    def probe(self, nonce: str) -> str:
        """String: set and removed by `mutirao doctor`."""
        return f"{self.prefix}:doctor:{nonce}"


DEFAULT = Keys()
