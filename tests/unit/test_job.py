"""The table of legal transitions: ends are ends, and every live job can reach one (I4, I7)."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

import mutirao.store
from mutirao.domain.job import ENDED, LIVE, TRANSITIONS, State, legal

SCHEMA = Path(mutirao.store.__file__).parent / "migrations" / "0001_schema.sql"


def reachable(start: State | None) -> set[State]:
    found: set[State] = set()
    ahead = set(TRANSITIONS[start])
    while ahead:
        found |= ahead
        ahead = {after for state in ahead for after in TRANSITIONS[state]} - found
    return found


def test_every_state_is_live_or_ended_and_in_the_table() -> None:
    assert frozenset(State) == LIVE | ENDED
    assert not LIVE & ENDED
    assert set(TRANSITIONS) == {None, *State}


def test_every_state_can_be_reached_by_a_submission() -> None:
    assert reachable(None) == set(State)


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_state_can_reach_every_end(state: State) -> None:
    assert reachable(state) >= ENDED


@pytest.mark.parametrize("state", sorted(LIVE - {State.RUNNING}))
def test_whatever_does_not_run_can_be_cancelled_or_leads_there_at_once(state: State) -> None:
    assert legal(state, State.CANCELLED)


def test_the_only_way_out_of_an_end_is_the_replay_of_a_dead_job() -> None:
    exits = {(before, after) for before, after in product(ENDED, State) if legal(before, after)}
    assert exits == {(State.DEAD, State.QUEUED)}


def test_a_job_runs_only_by_a_claim_and_is_claimed_only_where_it_was_assigned() -> None:
    assert [before for before in TRANSITIONS if legal(before, State.RUNNING)] == [State.ASSIGNED]
    assert [before for before in TRANSITIONS if legal(before, State.ASSIGNED)] == [State.QUEUED]


def test_only_a_running_job_succeeds() -> None:
    assert [before for before in TRANSITIONS if legal(before, State.SUCCEEDED)] == [State.RUNNING]


def test_no_transition_leads_to_the_same_state() -> None:
    assert not [state for state in State if legal(state, state)]


def test_the_schema_refuses_what_the_table_does_not_name() -> None:
    """The audit table's constraint is the same table, written in SQL."""
    text = SCHEMA.read_text(encoding="utf-8")
    constraint = text[text.index("transition_is_legal") : text.index("PARTITION BY RANGE (at)")]
    cases = re.findall(r"WHEN from_state (?:IS NULL|= '(\w+)') THEN to_state IN \(([^)]*)\)", constraint)
    in_sql = {before: frozenset(re.findall(r"'(\w+)'", after)) for before, after in cases}
    assert in_sql == {before or "": frozenset(after) for before, after in TRANSITIONS.items() if after}
    assert "ELSE false" in constraint
