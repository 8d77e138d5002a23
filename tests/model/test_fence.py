"""The coordinator's fence, searched: no assignment of an old term once a newer one exists (I3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.spin import search


def test_with_all_rules_an_old_term_assigns_nothing(tmp_path: Path) -> None:
    found = search("fence.pml", tmp_path)
    assert not found.violated, found.output
    assert found.complete, found.output


@pytest.mark.parametrize("rule", ["RULE_HOLDER_COMPARED", "RULE_ROW_HELD", "RULE_COMPARE_AND_SET"])
def test_without_the_rule_it_does(rule: str, tmp_path: Path) -> None:
    assert search("fence.pml", tmp_path, **{rule: 0}).violated


def test_later_terms_do_assign(tmp_path: Path) -> None:
    """Otherwise the search above would prove nothing."""
    assert search("fence.pml", tmp_path, WITNESS=3).violated
