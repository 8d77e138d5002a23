"""Wake-ups against a real server: back within seconds of every restart, found dead within a deadline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from mutirao.coordination.connection import connect
from mutirao.coordination.keys import DEFAULT as keys
from mutirao.coordination.wakeup import Subscription, Wakeups
from mutirao.loop import boottime
from tests.support.valkey import ScratchServer, scratch_server
from tests.support.waiting import until

NODE = UUID(int=5)


class Heard:
    """Counts what arrived on a channel."""

    def __init__(self) -> None:
        self.messages: Counter[str] = Counter()

    def __call__(self, message: str) -> None:
        self.messages[message] += 1

    def at_least(self, count: int) -> bool:
        """True once it was woken so often."""
        return self.messages[""] >= count


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path / "redis") as running:
        yield running


@pytest.fixture
def node() -> Heard:
    return Heard()


@pytest.fixture
def cancelled() -> Heard:
    return Heard()


@pytest.fixture
def subscription(server: ScratchServer, node: Heard, cancelled: Heard) -> Iterator[Subscription]:
    channels = {keys.node_channel(NODE): node, keys.cancel_channel: cancelled}
    listening = Subscription(server.url, channels)
    listening.start()
    until(lambda: listening.connected, 5, "subscribed")
    yield listening
    listening.stop()
    assert not listening.connected


def test_every_callback_runs_once_on_connection(
    subscription: Subscription, node: Heard, cancelled: Heard
) -> None:
    until(lambda: node.messages and cancelled.messages, 5, "first calls")
    assert node.messages == cancelled.messages == {"": 1}


def test_each_channel_reaches_its_callback(
    server: ScratchServer, subscription: Subscription, node: Heard, cancelled: Heard
) -> None:
    wakeups = Wakeups(server.client())
    jobs = [uuid4(), uuid4()]
    wakeups.publish_cancel(jobs)
    until(lambda: f"{jobs[0]} {jobs[1]}" in cancelled.messages, 5, "a cancel heard")
    wakeups.publish_nodes([UUID(int=6), NODE])
    wakeups.publish_coordinator()
    until(lambda: node.messages[""] == 2, 5, "the node woken")
    assert sum(cancelled.messages.values()) == 2


def test_three_restarts_in_a_row_bring_the_wakeups_back_within_five_seconds_each(
    server: ScratchServer, subscription: Subscription, node: Heard
) -> None:
    for round_number in range(1, 4):
        server.kill()
        until(lambda: not subscription.connected, 5, "the loss noticed")
        server.start()
        up = boottime()
        until(lambda: subscription.connected, 5, "connected again")
        Wakeups(server.client()).publish_node(NODE)
        expected = 2 * round_number + 1
        until(partial(node.at_least, expected), 5, "woken")
        assert boottime() - up < 5
        assert node.messages[""] == expected


def test_no_busy_loop_while_the_server_is_away_or_hangs_up_at_once(
    server: ScratchServer, subscription: Subscription
) -> None:
    client = server.client()
    client.config_set("maxclients", 1)
    attempts = int(client.info("stats")["rejected_connections"])
    client.client_kill_filter(_type="pubsub")
    until(lambda: not subscription.connected, 5, "refused for want of a slot")
    from_then = boottime()
    until(lambda: boottime() - from_then > 2, 5, "two seconds of refusals")
    refused = int(client.info("stats")["rejected_connections"]) - attempts
    assert 1 <= refused <= 20


def test_a_half_open_connection_is_found_by_a_deadline_and_comes_back(
    server: ScratchServer, subscription: Subscription, node: Heard
) -> None:
    server.freeze()
    until(lambda: not subscription.connected, 5, "the silence noticed")
    server.thaw()
    until(lambda: subscription.connected, 5, "connected again")
    Wakeups(server.client()).publish_node(NODE)
    until(lambda: node.messages[""] >= 3, 5, "woken")


def test_a_quiet_connection_is_kept(server: ScratchServer, subscription: Subscription, node: Heard) -> None:
    """An idle channel lives by its pings: it is the same connection after several of them."""
    client = server.client()

    def pings() -> int:
        return int(client.info("commandstats").get("cmdstat_ping", {"calls": 0})["calls"])

    until(lambda: pings() >= 2, 10, "two pings")
    assert subscription.connected
    assert node.messages == {"": 1}


def test_publishing_never_raises_and_does_not_wait_again_and_again(server: ScratchServer) -> None:
    wakeups = Wakeups(connect(server.url, timeout=0.3))
    wakeups.publish_coordinator()
    server.freeze()
    before = boottime()
    for _ in range(50):
        wakeups.publish_node(NODE)
    assert boottime() - before < 5
    server.thaw()


def test_publishing_resumes_after_an_outage(
    server: ScratchServer, subscription: Subscription, node: Heard
) -> None:
    wakeups = Wakeups(server.client())
    server.kill()
    wakeups.publish_node(NODE)
    server.start()
    until(lambda: subscription.connected, 5, "connected again")
    seen = node.messages[""]

    def woken() -> bool:
        wakeups.publish_node(NODE)
        return node.messages[""] > seen

    until(woken, 5, "woken", every=0.2)


def test_a_callback_that_fails_does_not_end_the_subscription(server: ScratchServer) -> None:
    heard = Heard()

    def failing(message: str) -> None:
        heard(message)
        if message == "bad":
            raise RuntimeError("callback")

    listening = Subscription(server.url, {"channel": failing})
    listening.start()
    try:
        until(lambda: listening.connected, 5, "subscribed")
        server.client().publish("channel", "bad")
        server.client().publish("channel", "good")
        until(lambda: heard.messages["good"], 5, "heard the next")
    finally:
        listening.stop()


def test_works_over_a_unix_socket_with_a_password(redis_url: str) -> None:
    heard = Heard()
    listening = Subscription(redis_url, {keys.coordinator_channel: heard})
    listening.start()
    try:
        until(lambda: listening.connected, 5, "subscribed")
        Wakeups(connect(redis_url)).publish_coordinator()
        until(lambda: heard.at_least(2), 5, "woken")
    finally:
        listening.stop()
