"""The leader key on a real server: one holder, whose owner alone prolongs or deletes it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mutirao.coordination.connection import connect
from mutirao.coordination.election import LeaderKey, Renewal
from mutirao.coordination.keys import DEFAULT as keys
from mutirao.errors import CoordinationUnavailable, SettingsError
from mutirao.loop import boottime
from tests.support.valkey import ScratchServer, scratch_server
from tests.support.waiting import until

A = "6f1e:1:a"
B = "7c2d:4:b"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScratchServer]:
    with scratch_server(tmp_path / "redis") as running:
        yield running


def test_one_takes_it_and_the_others_do_not(redis_url: str) -> None:
    key = LeaderKey(connect(redis_url))
    assert key.holder() is None
    assert key.take(A)
    assert not key.take(B)
    assert key.holder() == A


def test_taking_again_after_a_lost_answer_succeeds_and_prolongs(redis_url: str) -> None:
    client = connect(redis_url)
    key = LeaderKey(client)
    assert key.take(A, ttl_ms=5_000)
    assert key.take(A, ttl_ms=60_000)
    assert int(client.pttl(keys.leader)) > 5_000


def test_renewal_prolongs_the_own_key_only(redis_url: str) -> None:
    client = connect(redis_url)
    key = LeaderKey(client)
    assert key.renew(A) is Renewal.MISSING
    key.take(A, ttl_ms=1_000)
    assert key.renew(A, ttl_ms=60_000) is Renewal.RENEWED
    assert int(client.pttl(keys.leader)) > 1_000
    assert key.renew(B, ttl_ms=900_000) is Renewal.FOREIGN
    assert int(client.pttl(keys.leader)) <= 60_000


def test_a_expires_b_acquires_a_releases_and_b_keeps_it(redis_url: str) -> None:
    key = LeaderKey(connect(redis_url))
    assert key.take(A, ttl_ms=50)
    until(lambda: key.holder() is None, 5, "the key expired", every=0.01)
    assert key.take(B)
    assert key.renew(A) is Renewal.FOREIGN
    assert not key.release(A)
    assert key.holder() == B
    assert key.release(B)
    assert key.holder() is None


def test_key_gone_with_the_servers_memory_is_missing_and_can_be_taken_again(redis_url: str) -> None:
    client = connect(redis_url)
    key = LeaderKey(client)
    key.take(A, ttl_ms=60_000)
    client.flushall()
    assert key.renew(A) is Renewal.MISSING
    assert key.take(A)


def test_scripts_forgotten_by_the_server_are_loaded_again(redis_url: str) -> None:
    client = connect(redis_url)
    key = LeaderKey(client)
    key.take(A, ttl_ms=60_000)
    assert key.renew(A) is Renewal.RENEWED
    client.script_flush()
    assert key.renew(A) is Renewal.RENEWED
    client.script_flush()
    assert key.release(A)


def test_a_silent_server_is_given_up_within_the_timeout(server: ScratchServer) -> None:
    key = LeaderKey(connect(server.url, timeout=1.0))
    key.take(A, ttl_ms=60_000)
    server.freeze()
    before = boottime()
    with pytest.raises(CoordinationUnavailable):
        key.renew(A)
    assert boottime() - before < 5
    server.thaw()
    assert key.holder() == A


def test_a_server_that_is_gone_is_an_error_and_its_successor_is_used_at_once(server: ScratchServer) -> None:
    key = LeaderKey(server.client())
    key.take(A, ttl_ms=60_000)
    server.kill()
    with pytest.raises(CoordinationUnavailable):
        key.take(A, ttl_ms=60_000)
    server.start()
    assert key.take(B)


def test_an_unusable_url_is_a_settings_error_that_keeps_the_password() -> None:
    with pytest.raises(SettingsError) as refused:
        connect("http://:hunter2@localhost")
    assert "hunter2" not in f"{refused.value} {refused.value.hint}"
