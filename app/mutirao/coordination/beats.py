"""Beats in Redis: a growing counter that others see differ, accepted only once a majority has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import redis

from mutirao.coordination.keys import DEFAULT, Keys
from mutirao.domain.liveness import RedisReading
from mutirao.loop import boottime

# Keys of nodes that never come back must not stay for ever; no judgement rests on a key's expiry.
BEAT_TTL = 3600


class RedisBeats:
    """Writes one node's beats and reads its peers' in the same round trip; for one thread only.

    `replicas` is m - 1, what WAIT must return at least; `wait` bounds it, below the client's timeout.
    """

    def __init__(
        self, client: redis.Redis, node: UUID, replicas: int, *, keys: Keys = DEFAULT, wait: float = 0.5
    ) -> None:
        self._client = client
        self._keys = keys
        self._node = node
        self._replicas = replicas
        self._wait_ms = int(wait * 1000)
        self._missing: set[UUID] = set()

    def beat(self, incarnation: int, counter: int, peers: Sequence[UUID]) -> RedisReading:
        """One beat; any trouble with Redis makes it not accepted. A (incarnation, counter) is used once."""
        started = boottime()
        nodes = sorted({self._node, *peers})
        # Not MULTI: inside it WAIT does not wait.
        pipe = self._client.pipeline(transaction=False)
        pipe.set(self._keys.beat(self._node), f"{incarnation}:{counter}", ex=BEAT_TTL)
        for node in self._missing.intersection(nodes):
            # Only a value that is there can be seen not to move; being unique, this one never hides a beat.
            pipe.set(
                self._keys.beat(node), f"missing:{self._node}:{incarnation}:{counter}", ex=BEAT_TTL, nx=True
            )
        if self._replicas:
            pipe.wait(self._replicas, self._wait_ms)
        pipe.mget([self._keys.beat(node) for node in nodes])
        pipe.info("server")
        try:
            replies = pipe.execute(raise_on_error=False)
        except redis.RedisError:
            replies = []
        return self._judge(started, boottime(), nodes, replies)

    def _judge(self, started: float, finished: float, nodes: list[UUID], replies: list[Any]) -> RedisReading:
        refused = not replies or any(isinstance(reply, redis.RedisError) for reply in replies)
        if refused or replies[0] is not True or (self._replicas and replies[-3] < self._replicas):
            return RedisReading(started, finished, accepted=False)
        counters = {node: value for node, value in zip(nodes, replies[-2], strict=True) if value is not None}
        self._missing = set(nodes) - counters.keys()
        return RedisReading(started, finished, True, str(replies[-1]["run_id"]), counters)
