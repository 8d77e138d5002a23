"""Who takes which job: nobody more than it wants, nothing left lying that somebody could take (I7)."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mutirao.domain.placement import FEW, Candidate, Outlook, Room, plan, prefetch

CONTRACTS = [3, 1, 2]
UNKNOWN = 0


def share(waiting: list[Candidate], members: list[Room], room: Room) -> int:
    slots = sum(max(1, member.slots) for member in members)
    return max(FEW, math.ceil(len(waiting) / slots)) * max(1, room.slots)


@st.composite
def rooms(draw: st.DrawFn) -> list[Room]:
    return [
        Room(
            node=UUID(int=1000 + number),
            incarnation=draw(st.integers(1, 9)),
            slots=draw(st.integers(0, 4)),
            capacity=draw(st.integers(0, 12)),
            load=draw(st.integers(0, 14)),
            contracts=draw(st.frozensets(st.sampled_from(CONTRACTS))),
        )
        for number in range(draw(st.integers(0, 6)))
    ]


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    contracts = draw(st.lists(st.sampled_from([*CONTRACTS, UNKNOWN]), max_size=60))
    return [Candidate(UUID(int=number), contract) for number, contract in enumerate(contracts)]


@given(candidates(), rooms())
def test_each_job_at_most_once_to_a_node_that_serves_it_and_has_room(
    waiting: list[Candidate], members: list[Room]
) -> None:
    planned = plan(waiting, members)
    given_to = Counter(assignment.node for assignment in planned)
    assert len({assignment.job for assignment in planned}) == len(planned)
    contract_of = {candidate.id: candidate.contract for candidate in waiting}
    room_of = {room.node: room for room in members}
    for assignment in planned:
        room = room_of[assignment.node]
        assert assignment.contract == contract_of[assignment.job] in room.contracts
        assert assignment.incarnation == room.incarnation
    for room in members:
        assert given_to[room.node] <= room.free


@given(candidates(), rooms())
def test_who_is_left_after_the_last_round_could_be_taken_by_nobody(
    waiting: list[Candidate], members: list[Room]
) -> None:
    while planned := plan(waiting, members):
        given_to = Counter(assignment.node for assignment in planned)
        members = [replace(room, load=room.load + given_to[room.node]) for room in members]
        taken = {assignment.job for assignment in planned}
        waiting = [candidate for candidate in waiting if candidate.id not in taken]
    for candidate in waiting:
        assert all(room.free == 0 for room in members if candidate.contract in room.contracts)


@given(candidates(), rooms())
def test_no_round_gives_a_node_more_than_its_share_or_a_few_a_slot(
    waiting: list[Candidate], members: list[Room]
) -> None:
    given_to = Counter(assignment.node for assignment in plan(waiting, members))
    for room in members:
        assert given_to[room.node] <= share(waiting, members, room)


@given(candidates(), rooms())
def test_among_equals_the_first_are_taken_and_the_order_is_kept(
    waiting: list[Candidate], members: list[Room]
) -> None:
    taken = [assignment.job for assignment in plan(waiting, members)]
    assert taken == sorted(taken, key=lambda job: job.int)
    for contract in CONTRACTS:
        mine = [candidate.id in taken for candidate in waiting if candidate.contract == contract]
        assert mine == sorted(mine, reverse=True)


@given(candidates(), rooms())
def test_each_goes_to_the_least_loaded_per_slot_of_those_who_can_take_it(
    waiting: list[Candidate], members: list[Room]
) -> None:
    loads = {room.node: room.load for room in members}
    room_of = {room.node: room for room in members}
    contract_of = {candidate.id: candidate.contract for candidate in waiting}

    def pressure(node: UUID) -> float:
        return loads[node] / max(1, room_of[node].slots)

    def bound(room: Room) -> int:
        return min(room.capacity, room.load + share(waiting, members, room))

    for assignment in plan(waiting, members):
        contract = contract_of[assignment.job]
        able = [r.node for r in members if contract in r.contracts and loads[r.node] < bound(r)]
        assert pressure(assignment.node) == min(pressure(node) for node in able)
        loads[assignment.node] += 1


@given(candidates(), rooms())
def test_the_same_question_has_the_same_answer(waiting: list[Candidate], members: list[Room]) -> None:
    assert plan(waiting, members) == plan(tuple(waiting), tuple(members))


slots = st.integers(0, 64)
means = st.floats(min_value=0.0, max_value=1e6)


@given(slots, means)
def test_a_node_holds_a_job_for_each_slot_and_never_hoards(number: int, mean: float) -> None:
    assert number <= prefetch(number, mean) <= number * 400


@given(slots, st.floats(0.001, 1e6), st.floats(0.001, 1e6))
def test_the_shorter_the_jobs_the_more_it_holds(number: int, one: float, other: float) -> None:
    shorter, longer = sorted((one, other))
    assert prefetch(number, shorter) >= prefetch(number, longer)


@given(slots, st.floats(1.0, 1e6))
def test_long_jobs_are_held_one_for_each_slot(number: int, mean: float) -> None:
    assert prefetch(number, mean) == number


@given(slots, st.floats(0.0025, 1.0))
def test_what_is_held_beyond_one_for_each_slot_ends_within_the_horizon(number: int, mean: float) -> None:
    assert prefetch(number, mean) * mean <= number * 1.0 + 1e-9


@given(
    before=st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 3000), st.booleans()), max_size=20),
    depth=st.integers(0, 1999),
)
def test_what_room_is_left_for_is_found_however_far_down_it_waits(
    before: list[tuple[int, int, bool]], depth: int
) -> None:
    outlook = Outlook(64, 2000)
    for seen, planned, left in before:
        bounded = min(seen, outlook.size)
        outlook.learn(bounded, seen, min(seen, planned), left)
        assert 64 <= outlook.size <= 2000
    looks = 1
    while depth >= outlook.size:  # nobody can run what is seen, and there is room for what is not
        assert outlook.learn(outlook.size, outlook.size, 0, room_left=True), "it must look again at once"
        looks += 1
    assert looks <= 6


def test_a_look_is_about_as_far_as_rounds_get() -> None:
    outlook = Outlook(64, 2000)
    while outlook.learn(outlook.size, outlook.size, min(outlook.size, 500), room_left=False):
        pass
    assert outlook.size == 512
    for _ in range(10):
        assert not outlook.learn(outlook.size, outlook.size, 100, room_left=False)
    assert outlook.size == 256
    assert outlook.learn(outlook.size, outlook.size, 256, room_left=True)
    assert not outlook.learn(0, 0, 0, room_left=True)
