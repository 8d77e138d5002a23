"""Who is alive: what an observer may conclude from what it saw move, rule by rule (DESIGN §5, I8)."""

from __future__ import annotations

from uuid import UUID

import pytest

from mutirao.domain.liveness import (
    LeaseSettings,
    NodeBeat,
    Observer,
    RedisReading,
    StoreReading,
    Verdict,
)

TIMES = LeaseSettings(lease=10.0, guard=2.0, store_outage=60.0)
W = UUID(int=1)
X = UUID(int=2)


class Watch:
    """An observer fed once a second: both stores accepted unless a test says otherwise."""

    def __init__(self) -> None:
        self.observer = Observer(TIMES)
        self.keys: dict[UUID, str] = {W: "1:1"}
        self.rows: dict[UUID, NodeBeat] = {W: NodeBeat(1, 1, True)}
        self.run_id = "one"
        self.identity = "first"
        self.now = 0.0

    def redis(self, started: float, took: float = 0.0, *, accepted: bool = True) -> None:
        reading = RedisReading(started, started + took, accepted, self.run_id, dict(self.keys))
        self.observer.redis_read(reading)

    def postgres(self, started: float, took: float = 0.0) -> None:
        self.observer.pg_read(StoreReading(started, started + took, self.identity, dict(self.rows)))

    def until(self, end: float, *, redis: bool = True, postgres: bool = True) -> None:
        """Reads every second from where it stopped up to and including `end`."""
        while self.now <= end:
            if redis:
                self.redis(self.now)
            if postgres:
                self.postgres(self.now)
            self.now += 1

    @property
    def lost(self) -> set[UUID]:
        return {verdict.node for verdict in self.observer.lost()}


@pytest.fixture
def watch() -> Watch:
    return Watch()


def test_lost_after_lease_and_guard_of_silence_in_both_stores_and_not_before(watch: Watch) -> None:
    watch.until(11)
    assert watch.lost == set()
    watch.until(12)
    assert watch.observer.lost() == [Verdict(W, incarnation=1, counter=1, redis_on=True)]


@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_movement_in_either_store_is_life(watch: Watch, store: str) -> None:
    for second in range(40):
        if store == "redis":
            watch.keys[W] = f"1:{second}"
        else:
            watch.rows[W] = NodeBeat(1, second, True)
        watch.until(second)
        assert watch.lost == set()


def test_a_committed_off_flag_leaves_postgres_alone_to_decide(watch: Watch) -> None:
    watch.rows[W] = NodeBeat(1, 1, redis_on=False)
    for second in range(13):
        watch.keys[W] = f"1:{second}"
        watch.until(second)
    assert watch.observer.lost() == [Verdict(W, 1, 1, redis_on=False)]


def test_silence_in_postgres_for_store_outage_is_loss_whatever_redis_shows(watch: Watch) -> None:
    for second in range(63):
        assert watch.lost == set()
        watch.keys[W] = f"1:{second}"
        watch.until(second)
    assert watch.lost == {W}


def test_measured_to_the_start_of_the_last_accepted_read_never_to_now(watch: Watch) -> None:
    watch.until(5)
    # The observer was paused here; its clock went on, its readings did not.
    assert watch.lost == set()
    watch.redis(11.9, took=50.0)
    watch.postgres(11.9, took=50.0)
    assert watch.lost == set()


def test_movement_is_dated_by_the_end_of_the_reading_that_showed_it(watch: Watch) -> None:
    watch.redis(0.0, took=3.0)
    watch.postgres(0.0)
    watch.now = 2.0
    watch.until(14)
    assert watch.lost == set()
    watch.until(15)
    assert watch.lost == {W}


def test_a_gap_of_over_two_seconds_in_own_accepted_redis_beats_restarts_its_window(watch: Watch) -> None:
    watch.until(10)
    watch.postgres(11.0)
    watch.postgres(12.0)
    watch.now = 12.5
    watch.until(24)
    assert watch.lost == set()
    watch.until(24.5)
    assert watch.lost == {W}


def test_a_gap_of_two_seconds_does_not(watch: Watch) -> None:
    watch.until(10)
    watch.now = 12.0
    watch.until(12)
    assert watch.lost == {W}


def test_readings_that_were_not_accepted_prove_nothing(watch: Watch) -> None:
    watch.until(2)
    for second in range(3, 30):
        watch.redis(second, accepted=False)
        watch.postgres(second)
    assert watch.lost == set()


def test_a_changed_run_id_restarts_the_redis_window(watch: Watch) -> None:
    watch.until(10)
    watch.run_id = "two"
    watch.until(22)
    assert watch.lost == set()
    watch.until(23)
    assert watch.lost == {W}


def test_missing_keys_are_not_dead(watch: Watch) -> None:
    watch.until(10)
    watch.keys.clear()
    watch.until(50)
    assert watch.lost == set()
    watch.keys[W] = "missing:someone:1"
    watch.until(62)
    assert watch.lost == {W}, "silent in PostgreSQL for store_outage"


def test_a_key_that_came_back_is_judged_from_then_on(watch: Watch) -> None:
    watch.until(5)
    del watch.keys[W]
    watch.until(6)
    watch.keys[W] = "1:1"
    watch.until(18)
    assert watch.lost == set()
    watch.until(19)
    assert watch.lost == {W}


def test_unchanged_across_a_postgres_outage_counts_as_unmoved(watch: Watch) -> None:
    watch.until(2)
    watch.until(29, postgres=False)
    assert watch.lost == set()
    watch.until(30)
    assert watch.lost == {W}


def test_moved_across_a_postgres_outage_counts_as_moved(watch: Watch) -> None:
    watch.until(2)
    watch.until(29, postgres=False)
    watch.rows[W] = NodeBeat(1, 2, True)
    watch.until(41)
    assert watch.lost == set()
    watch.until(42)
    assert watch.lost == {W}


def test_after_another_postgres_identity_nobody_is_declared_for_the_guard_time(watch: Watch) -> None:
    watch.until(12)
    watch.identity = "second"
    watch.until(14)
    assert watch.lost == set()
    watch.until(15)
    assert watch.lost == {W}


def test_silences_that_only_overlap_are_no_silence(watch: Watch) -> None:
    for second in range(13):
        watch.rows[W] = NodeBeat(1, second, True)
        watch.until(second)
    watch.until(30, redis=False)
    assert watch.lost == set()


def test_redis_out_of_reach_for_the_observer_delays_the_judgement_to_store_outage(watch: Watch) -> None:
    watch.until(61, redis=False)
    assert watch.lost == set()
    watch.until(62, redis=False)
    assert watch.lost == {W}


def test_nodes_are_judged_one_by_one_and_forgotten_with_their_row(watch: Watch) -> None:
    watch.rows[X] = NodeBeat(4, 7, True)
    watch.keys[X] = "4:7"
    for second in range(13):
        watch.keys[X] = f"4:{second}"
        watch.until(second)
    assert watch.lost == {W}
    del watch.rows[W]
    watch.until(13)
    assert watch.lost == set()


def test_the_next_incarnation_starts_anew(watch: Watch) -> None:
    watch.until(12)
    watch.rows[W] = NodeBeat(2, 1, True)
    watch.until(24)
    assert watch.lost == set()


def test_stale_after_three_seconds_without_movement_while_postgres_is_up(watch: Watch) -> None:
    watch.rows[X] = NodeBeat(1, 1, True)
    for second in range(4):
        watch.rows[X] = NodeBeat(1, second + 1, True)
        watch.until(second)
    assert watch.observer.stale_nodes() == set()
    watch.until(4)
    assert watch.observer.stale_nodes() == {W}


def test_after_an_outage_all_get_three_seconds_before_they_are_stale(watch: Watch) -> None:
    watch.until(10)
    watch.until(20, postgres=False)
    watch.until(24)
    assert watch.observer.stale_nodes() == set()
    watch.until(25)
    assert watch.observer.stale_nodes() == {W}
