"""Redis as this node meets it: speed, not truth, so most of it is worth a warning only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import takewhile

from mutirao.coordination.doctor import RedisServer
from mutirao.doctor.finding import Finding, ok, warn
from mutirao.settings import Settings

OLDEST = 7
NEARLY_FULL = 0.9


def judge(server: RedisServer, settings: Settings) -> Iterator[Finding]:
    """Everything about a server that answers."""
    for check in CHECKS:
        yield check(server, settings)


def _version(server: RedisServer, _settings: Settings) -> Finding:
    major = int("".join(takewhile(str.isdigit, server.version)) or 0)
    said = f"{server.kind} {server.version}"
    if major < OLDEST:
        return warn("redis.version", f"{said} is too old", f"use {OLDEST} or newer, or Valkey")
    return ok("redis.version", said)


def _writable(server: RedisServer, _settings: Settings) -> Finding:
    if server.refusal:
        return warn(
            "redis.writable", f"it refuses a write: {server.refusal}",
            "until it takes them the cluster goes on by PostgreSQL alone, slower",
        )  # fmt: skip
    if server.role != "master":
        return warn("redis.writable", f"it is a {server.role}", "point the `redis` setting at the primary")
    return ok("redis.writable", "a primary that takes writes")


def _memory(server: RedisServer, _settings: Settings) -> Finding:
    if not server.max_memory:
        return ok("redis.memory", f"{server.used_memory >> 20} MiB used, no bound set")
    said = f"{server.used_memory >> 20} of {server.max_memory >> 20} MiB used"
    if server.used_memory > NEARLY_FULL * server.max_memory:
        return warn("redis.memory", said, "raise maxmemory, or find whose keys they are")
    if server.policy not in ("", "noeviction"):
        hint = "set maxmemory-policy to noeviction: evicted beats and locks cost speed"
        return warn("redis.memory", f"{said}, policy {server.policy}", hint)
    return ok("redis.memory", f"{said}, {server.policy or 'policy unknown'}")


def _replicas(server: RedisServer, settings: Settings) -> Finding:
    said = f"{server.replicas} replicas, `redis_replicas` is {settings.redis_replicas}"
    if server.replicas < settings.redis_replicas:
        return warn("redis.replicas", said, "bring the replicas back: until then no beat is accepted")
    return ok("redis.replicas", said)


CHECKS: tuple[Callable[[RedisServer, Settings], Finding], ...] = (_version, _writable, _memory, _replicas)
