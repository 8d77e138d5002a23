"""Beats against real servers: accepted only when a majority has it, and never an exception (DESIGN §5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import pytest
import redis

from mutirao.coordination.beats import RedisBeats
from mutirao.coordination.connection import connect
from mutirao.coordination.keys import DEFAULT as keys
from mutirao.loop import boottime
from tests.support.valkey import ScratchServer, scratch_server
from tests.support.waiting import until

ME = UUID(int=1)
PEER = UUID(int=2)
WAIT = 0.3


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path / "primary") as running:
        yield running


@pytest.fixture
def replica(tmp_path: Path, server: ScratchServer) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path / "replica", "--replicaof", f"127.0.0.1 {server.port}") as running:
        pipe = server.client().pipeline(transaction=False)

        def in_step() -> bool:
            pipe.set("probe", 1)
            pipe.wait(1, 100)
            return bool(pipe.execute()[1])

        until(in_step, 10, "a replica in step")
        yield running


def beats(server: ScratchServer, replicas: int = 0, node: UUID = ME) -> RedisBeats:
    return RedisBeats(connect(server.url, timeout=2.0), node, replicas, wait=WAIT)


def test_an_accepted_beat_reads_all_counters_and_names_the_server(server: ScratchServer) -> None:
    before = boottime()
    beats(server, node=PEER).beat(7, 41, [])
    reading = beats(server).beat(3, 5, [PEER, UUID(int=9)])
    assert reading.accepted
    assert before <= reading.started <= reading.finished <= boottime()
    assert reading.counters == {ME: "3:5", PEER: "7:41"}
    assert reading.run_id == server.client().info("server")["run_id"]


def test_a_restarted_server_has_another_run_id(server: ScratchServer) -> None:
    mine = beats(server)
    first = mine.beat(1, 1, [])
    server.restart()
    second = mine.beat(1, 2, [])
    assert first.accepted
    assert second.accepted
    assert first.run_id != second.run_id


def test_without_the_replicas_it_is_written_but_not_accepted(server: ScratchServer) -> None:
    reading = beats(server, replicas=1).beat(1, 1, [])
    assert not reading.accepted
    assert not reading.counters
    assert server.client().get(keys.beat(ME)) == "1:1"


def test_accepted_with_a_replica_in_step_and_not_once_that_is_frozen(
    server: ScratchServer, replica: ScratchServer
) -> None:
    mine = beats(server, replicas=1)
    until(lambda: mine.beat(1, 1, []).accepted, 10, "accepted")
    assert replica.client().get(keys.beat(ME)) == "1:1"
    replica.freeze()
    assert not mine.beat(1, 2, []).accepted
    replica.thaw()
    until(lambda: mine.beat(1, 3, []).accepted, 10, "accepted again")
    assert not beats(server, replicas=2).beat(1, 4, []).accepted


def test_wait_inside_multi_or_lua_does_not_wait(server: ScratchServer, replica: ScratchServer) -> None:
    """Why a beat is a plain pipeline: there WAIT takes its time, in a transaction or script it does not."""
    client = connect(server.url, timeout=5)
    replica.freeze()

    def seconds(run: Callable[[], None]) -> float:
        before = boottime()
        run()
        return boottime() - before

    def pipeline(transaction: bool) -> None:
        pipe = client.pipeline(transaction=transaction)
        pipe.set("probe", 2)
        pipe.wait(1, 1500)
        assert pipe.execute()[1] == 0

    def script() -> None:
        # Some servers refuse WAIT in a script, the others answer at once.
        with suppress(redis.ResponseError):
            assert client.eval("redis.call('SET', 'probe', 3) return redis.call('WAIT', 1, 1500)", 0) == 0

    assert seconds(lambda: pipeline(transaction=False)) > 1.4
    assert seconds(lambda: pipeline(transaction=True)) < 1.2
    assert seconds(script) < 1.2


def test_noreplicas_is_not_accepted(server: ScratchServer) -> None:
    server.client().config_set("min-replicas-to-write", 1)
    assert not beats(server).beat(1, 1, []).accepted
    server.client().config_set("min-replicas-to-write", 0)
    assert beats(server).beat(1, 2, []).accepted


def test_out_of_memory_is_not_accepted(server: ScratchServer) -> None:
    server.client().config_set("maxmemory", 1)
    assert not beats(server).beat(1, 1, []).accepted


def test_a_refused_beat_is_not_accepted_even_though_earlier_writes_were_replicated(
    server: ScratchServer, replica: ScratchServer
) -> None:
    mine = beats(server, replicas=1)
    until(lambda: mine.beat(1, 1, []).accepted, 10, "accepted")
    server.client().config_set("maxmemory", 1)
    assert not mine.beat(1, 2, []).accepted


def test_a_replica_takes_no_beats_though_it_answers_reads(
    server: ScratchServer, replica: ScratchServer
) -> None:
    beats(server).beat(1, 1, [])
    until(lambda: replica.client().get(keys.beat(ME)), 5, "replicated")
    assert not beats(replica).beat(1, 2, []).accepted


def test_a_loading_server_is_not_accepted(server: ScratchServer) -> None:
    pipe = server.client().pipeline(transaction=False)
    for number in range(1500):
        pipe.set(f"filler:{number}", "x" * 100)
    pipe.save()
    pipe.execute()
    server.kill()
    server.launch("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")

    def loading() -> bool:
        try:
            server.client().get("probe")
        except redis.exceptions.BusyLoadingError:
            return True
        except redis.ConnectionError:
            return False
        raise AssertionError("loaded before it was seen loading")

    mine = beats(server)
    until(loading, 10, "a loading server", every=0.01)
    assert not mine.beat(1, 1, []).accepted
    until(lambda: mine.beat(1, 2, []).accepted, 10, "accepted once loaded")


def test_a_frozen_server_is_not_accepted_and_found_within_a_bound(server: ScratchServer) -> None:
    mine = beats(server)
    assert mine.beat(1, 1, []).accepted
    server.freeze()
    before = boottime()
    assert not mine.beat(1, 2, []).accepted
    assert boottime() - before < 5
    server.thaw()
    assert mine.beat(1, 3, []).accepted


def test_a_server_that_is_gone_is_not_accepted_and_its_successor_is(server: ScratchServer) -> None:
    mine = beats(server)
    assert mine.beat(1, 1, []).accepted
    server.kill()
    assert not mine.beat(1, 2, []).accepted
    server.start()
    assert mine.beat(1, 3, []).accepted


def test_a_lost_key_is_missing_once_and_then_held_by_a_placeholder_until_its_node_beats(
    server: ScratchServer,
) -> None:
    mine, peers = beats(server), beats(server, node=PEER)
    peers.beat(1, 1, [])
    assert mine.beat(1, 1, [PEER]).counters == {ME: "1:1", PEER: "1:1"}
    server.client().flushall()
    assert mine.beat(1, 2, [PEER]).counters == {ME: "1:2"}
    third, fourth = mine.beat(1, 3, [PEER]), mine.beat(1, 4, [PEER])
    assert third.counters is not None
    assert fourth.counters is not None
    assert third.counters[PEER] == fourth.counters[PEER] != "1:1"
    server.client().flushall()
    mine.beat(1, 5, [PEER])
    again = mine.beat(1, 6, [PEER]).counters
    assert again is not None
    assert again[PEER] != third.counters[PEER]
    peers.beat(1, 2, [])
    last = mine.beat(1, 7, [PEER]).counters
    assert last is not None
    assert last[PEER] == "1:2"


def test_a_value_that_is_no_text_is_only_another_value(server: ScratchServer) -> None:
    server.client().set(keys.beat(PEER), b"\xff\xfe")
    reading = beats(server).beat(1, 1, [PEER])
    assert reading.accepted
    assert reading.counters is not None
    assert PEER in reading.counters
