"""The protocol of beats, searched: nobody is lost while it executes (I2), and no rule [M] can be spared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.spin import search

FOUND_BY_MODEL = [
    "RULE_SYNCHRONOUS_BEAT",
    "RULE_FORWARD_ONLY",
    "RULE_WAIT_FOR_MAJORITY",
    "RULE_OFF_WHEN_SENT",
    "RULE_ON_WHEN_ACKNOWLEDGED",
]
OTHERS_NEEDED = [
    "RULE_MISSING_PROVES_NOTHING",
    "RULE_COMMON_WINDOW",
    "RULE_UP_TO_LAST_READ",
    "RULE_OUTAGE_FENCE",
]


def test_with_all_rules_nobody_is_lost_while_it_executes(tmp_path: Path) -> None:
    found = search("beats.pml", tmp_path)
    assert not found.violated, found.output
    assert found.complete, found.output


@pytest.mark.parametrize("rule", [*FOUND_BY_MODEL, *OTHERS_NEEDED])
def test_without_the_rule_an_executing_node_is_declared_lost(rule: str, tmp_path: Path) -> None:
    assert search("beats.pml", tmp_path, **{rule: 0}).violated


def test_the_redis_window_is_a_second_line_behind_missing_keys(tmp_path: Path) -> None:
    found = search("beats.pml", tmp_path, RULE_WINDOW_RESTARTS=0)
    assert found.complete and not found.violated, found.output


@pytest.mark.parametrize("reason", [1, 2, 3], ids=["outage", "redis_off", "both_stores"])
def test_a_node_can_be_lost_for_each_reason(reason: int, tmp_path: Path) -> None:
    """Otherwise the searches above would prove nothing."""
    assert search("beats.pml", tmp_path, WITNESS=reason).violated
