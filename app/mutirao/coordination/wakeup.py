"""Wake-ups over pub/sub: hints that there is work, never its only bearer; polling is the fallback."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

import redis
from redis.client import PubSub

from mutirao.coordination.connection import connect
from mutirao.coordination.keys import DEFAULT, Keys
from mutirao.logs import get_logger
from mutirao.loop import Loop, boottime

log = get_logger(__name__)

# After a failure nobody waits for Redis again until this much later.
PAUSE_AFTER_FAILURE = 2.0
# A subscription is asked for a sign of life this often, and given up this long after a missing answer.
PING_EVERY = 2.0
ANSWER_WITHIN = 1.0
RECONNECT_AFTER = 0.5
READ_FOR = 0.5


class Wakeups:
    """Publishes hints; never raises, and while Redis does not answer costs next to nothing."""

    def __init__(self, client: redis.Redis, keys: Keys = DEFAULT) -> None:
        self._client = client
        self._keys = keys
        self._silent_until = 0.0

    def publish_coordinator(self) -> None:
        """There is something to plan."""
        self._publish([(self._keys.coordinator_channel, "")])

    def publish_node(self, node: UUID) -> None:
        """The node was given something."""
        self.publish_nodes([node])

    def publish_nodes(self, nodes: Iterable[UUID]) -> None:
        """Each of these nodes was given something."""
        self._publish([(self._keys.node_channel(node), "") for node in nodes])

    def publish_cancel(self, jobs: Iterable[UUID]) -> None:
        """A cancel was requested for these running jobs; every node hears of it."""
        self._publish([(self._keys.cancel_channel, " ".join(str(job) for job in jobs))])

    def _publish(self, messages: list[tuple[str, str]]) -> None:
        if not messages or boottime() < self._silent_until:
            return
        pipe = self._client.pipeline(transaction=False)
        for channel, message in messages:
            pipe.publish(channel, message)
        try:
            pipe.execute(raise_on_error=False)
        except redis.RedisError as error:
            self._silent_until = boottime() + PAUSE_AFTER_FAILURE
            log.debug("wakeup_not_published", error=str(error))


class Subscription:
    """Calls each channel's callback with every message, and with "" once after every (re)connection.

    Reconnects by itself, at most about twice a second; a connection whose peer fell silent is noticed within
    PING_EVERY + ANSWER_WITHIN. Callbacks run on the subscription's thread and must be quick.
    """

    def __init__(self, url: str, channels: Mapping[str, Callable[[str], None]]) -> None:
        self._channels = dict(channels)
        self._client = connect(url)
        self._pubsub: PubSub | None = None
        self._connected = threading.Event()
        self._heard = 0.0
        self._asked = 0.0
        self._loop = Loop("subscription", self._run_once)

    @property
    def connected(self) -> bool:
        """True while the server is known to deliver; if False, only polling finds work."""
        return self._connected.is_set()

    def start(self) -> None:
        """Connects in the background."""
        self._loop.start()

    def stop(self, timeout: float = 5.0) -> None:
        """Ends the thread and its connection."""
        self._loop.stop(timeout)
        self._drop()

    def _run_once(self) -> float:
        try:
            pubsub = self._pubsub or self._subscribe()
            message = pubsub.get_message(timeout=READ_FOR)
            if message is not None:
                self._receive(message)
            self._check_peer(pubsub)
        except redis.RedisError as error:
            if self.connected:
                log.warning("wakeups_lost", error=str(error))
            self._drop()
            return RECONNECT_AFTER * random.uniform(0.8, 1.2)  # noqa: S311 - only spreads the load
        return 0.0

    def _subscribe(self) -> PubSub:
        pubsub = PubSub(self._client.connection_pool)
        self._pubsub = pubsub
        self._heard = self._asked = boottime()
        pubsub.subscribe(*self._channels)
        return pubsub

    def _receive(self, message: Mapping[str, object]) -> None:
        self._heard = boottime()
        if message["type"] == "message":
            self._channels[str(message["channel"])](str(message["data"]))
        elif message["type"] == "subscribe" and message["data"] == len(self._channels):
            # All are confirmed: whatever was missed before is found by looking once.
            self._connected.set()
            log.info("wakeups_connected")
            for callback in self._channels.values():
                callback("")

    def _check_peer(self, pubsub: PubSub) -> None:
        now = boottime()
        if self._asked > self._heard and now - self._asked > ANSWER_WITHIN:
            raise redis.ConnectionError("no answer to a ping")
        if self._asked <= self._heard and now - max(self._heard, self._asked) > PING_EVERY:
            self._asked = now
            pubsub.ping()

    def _drop(self) -> None:
        self._connected.clear()
        pubsub, self._pubsub = self._pubsub, None
        if pubsub is not None:
            pubsub.close()
