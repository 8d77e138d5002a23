"""This node's place in the cluster, as the two stores know it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from uuid import UUID

import mutirao
from mutirao.doctor.finding import Finding, fail, ok, warn
from mutirao.settings import Settings
from mutirao.store.doctor import Examination, NodeState

OLD_BEAT = 3.0
# Redis away, the term's beat comes from PostgreSQL all the same: three of its seconds are enough to see it.
WATCH = 3.0


def membership(stored: Examination, settings: Settings, mine: UUID | None) -> Iterator[Finding]:
    """The node's row and what it serves."""
    found = stored.node(mine) if mine is not None else None
    if mine is None or found is None:
        yield warn("cluster.member", "this node has never registered", "start its agent")
        return
    yield _status(found)
    yield _beat(found)
    yield _named(found, settings, stored.namesakes(mine, settings.node_name))
    refused = stored.refusals(mine)
    for handler, why in refused:
        yield warn("cluster.contracts", f"{handler} is not served: {why}", "see docs/handlers.md, contracts")
    if not refused:
        yield ok("cluster.contracts", "every handler's contract accepts what waits for it")


def coordinator(stored: Examination) -> Finding:
    """Whether somebody is in office and shows it."""
    before = stored.term()
    if before.holder is None:
        return fail(
            "cluster.coordinator", f"nobody is in office (term {before.term})",
            "one stands within 15 s if any agent runs and reaches PostgreSQL: see their logs",
        )  # fmt: skip
    deadline = time.monotonic() + WATCH
    while time.monotonic() < deadline:
        now = stored.term()
        if (now.term, now.beat) != (before.term, before.beat):
            return ok("cluster.coordinator", f"{now.holder or before.holder} is in office, term {now.term}")
        time.sleep(0.1)
    return fail(
        "cluster.coordinator", f"{before.holder} holds term {before.term} and does not beat",
        "another takes over within 15 s; if none does, see the agents' logs",
    )  # fmt: skip


def peers(stored: Examination, unheard: Callable[[list[UUID]], list[UUID]]) -> Finding:
    """Whether every node that beats is heard in Redis, too: one with another prefix or server is not."""
    names = dict(stored.beating())
    silent = [names[node] for node in unheard(list(names))]
    if silent:
        hint = "give all nodes of a cluster the same `redis` and `redis_prefix`"
        return warn("cluster.prefix", f"not heard in this Redis: {', '.join(silent)}", hint)
    return ok("cluster.prefix", f"{len(names)} nodes are heard in this Redis")


def _status(found: NodeState) -> Finding:
    said = f"{found.name} is {found.status}, incarnation {found.incarnation}"
    if found.status == "live":
        return ok("cluster.member", said)
    judged = warn if found.status in ("draining", "stopped") else fail
    return judged("cluster.member", said, "start its agent; it registers again by itself")


def _beat(found: NodeState) -> Finding:
    if found.beat_age is None or found.beat_age > OLD_BEAT:
        age = "no beat" if found.beat_age is None else f"its last beat is {found.beat_age:.0f} s old"
        return fail(
            "cluster.beat", age, "its agent is ended, frozen, or cut off from PostgreSQL: see its log"
        )
    if not found.redis_on:
        return warn("cluster.beat", "it lives by PostgreSQL alone", "bring Redis back")
    return ok("cluster.beat", f"its last beat is {found.beat_age:.1f} s old")


def _named(found: NodeState, settings: Settings, namesakes: int) -> Finding:
    if namesakes:
        hint = "people cannot tell them apart: set another node_name"
        return warn("cluster.name", f"{namesakes} other nodes are called {settings.node_name}", hint)
    if found.version != mutirao.__version__:
        return warn(
            "cluster.version",
            f"its agent runs {found.version}, this is {mutirao.__version__}",
            "restart the agent",
        )
    return ok("cluster.version", f"its agent runs {found.version}")
