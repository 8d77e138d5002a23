"""A node and its observer in simulated time, over random faults and over those that each rule is for (I2)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.liveness_rules import INSTANTS, RULES, SETTINGS, WINDOWS, Fault
from tests.support.liveness_world import TIMEOUT, ran

TENTHS = st.integers(0, 600).map(lambda tenths: tenths / 10)
FAULTS = st.lists(
    st.builds(Fault, st.sampled_from(WINDOWS), TENTHS, TENTHS)
    | st.builds(Fault, st.sampled_from(INSTANTS), TENTHS, TENTHS),
    max_size=8,
)


@settings(max_examples=400)
@given(FAULTS, st.integers(0, 2**32))
def test_no_observer_ever_declares_lost_what_may_still_execute(faults: list[Fault], seed: int) -> None:
    assert not ran(faults, seed).wrong


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_is_needed(rule: str) -> None:
    faults = RULES[rule]
    assert not any(ran(faults, seed).wrong for seed in range(40))
    assert any(ran(faults, seed, without=rule).wrong for seed in range(40))


@pytest.mark.parametrize("seed", range(20))
def test_a_dead_node_is_declared_within_lease_and_guard_and_two_beats(seed: int) -> None:
    died = 30.0
    world = ran([Fault("redis cut from node", died, 100), Fault("postgres cut from node", died, 100)], seed)
    assert world.declared is not None
    assert not world.wrong
    assert world.declared - died < SETTINGS.lease + SETTINGS.guard + 2 * (1.0 + TIMEOUT)


@pytest.mark.parametrize(
    "faults",
    [
        [],
        [Fault("redis emptied", second) for second in range(20, 60)],
        [Fault("redis failed over", second, 5.0) for second in range(20, 60, 5)],
        [Fault("redis cut from node", 20, 70), Fault("redis cut from observer", 20, 70)],
        [Fault("postgres cut from node", 20, 50), Fault("postgres cut from observer", 20, 50)],
        [Fault("postgres failed over", second) for second in range(20, 60, 5)],
    ],
    ids=["no fault", "emptied", "failed over", "redis away", "postgres away", "postgres failed over"],
)
def test_a_store_in_trouble_makes_nobody_stop_or_be_lost(faults: list[Fault]) -> None:
    for seed in range(10):
        world = ran(faults, seed)
        assert world.declared is None
        assert world.executing(100.0)
