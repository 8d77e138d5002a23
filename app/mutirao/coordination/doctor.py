"""What `mutirao doctor` asks Redis: facts, judged elsewhere."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import redis

from mutirao.coordination.connection import wrapped
from mutirao.coordination.keys import Keys

_PROBE_TTL = 10


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server as it describes itself; memory in bytes, `max_memory` 0: unbounded.

    `refusal` is its answer to a write, empty when it took it; `policy` is empty where it may not be read.
    """

    kind: str
    version: str
    role: str
    replicas: int
    used_memory: int
    max_memory: int
    policy: str
    refusal: str


class RedisExamination:
    """Reads what is there and writes one key that is gone at once; raises CoordinationUnavailable."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def server(self) -> RedisServer:
        """The server behind the `redis` setting."""
        with wrapped():
            info = self._client.info()
        kind = "Valkey" if info.get("server_name") == "valkey" else "Redis"
        return RedisServer(
            kind=kind,
            version=str(info.get("valkey_version") or info.get("redis_version", "?")),
            role=str(info.get("role", "?")),
            replicas=int(info.get("connected_slaves", 0)),
            used_memory=int(info.get("used_memory", 0)),
            max_memory=int(info.get("maxmemory", 0)),
            policy=str(info.get("maxmemory_policy", "")),
            refusal=self._refusal(),
        )

    def unheard(self, nodes: Iterable[UUID]) -> list[UUID]:
        """Those nodes that have no beat under this cluster's prefix."""
        wanted = list(nodes)
        with wrapped():
            found = self._client.mget([self._keys.beat(node) for node in wanted]) if wanted else []
        return [node for node, beat in zip(wanted, found, strict=True) if beat is None]

    def _refusal(self) -> str:
        key = self._keys.probe(secrets.token_hex(8))
        try:
            self._client.set(key, "1", ex=_PROBE_TTL)
            self._client.delete(key)
        except redis.RedisError as error:
            return str(error) or type(error).__name__
        return ""
