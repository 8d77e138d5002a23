"""Which node takes which queued job: pure planning over plain values."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

# So many jobs a slot may be given in one round, however few there are.
FEW = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """A queued job, as the planner sees it; `contract` is the id of the one its payload fits."""

    id: UUID
    contract: int


@dataclass(frozen=True, slots=True)
class Room:
    """A node that may be given work: `load` jobs are its own now, `capacity` is all it wants to hold.

    It serves the contracts of these ids, and takes no job of any other.
    """

    node: UUID
    incarnation: int
    slots: int
    capacity: int
    load: int
    contracts: frozenset[int]

    @property
    def free(self) -> int:
        """How many more jobs the node wants."""
        return max(0, self.capacity - self.load)


@dataclass(frozen=True, slots=True)
class Assignment:
    """One job, under the contract it was seen with, for one node's incarnation."""

    job: UUID
    node: UUID
    incarnation: int
    contract: int


def plan(candidates: Sequence[Candidate], rooms: Sequence[Room]) -> list[Assignment]:
    """Gives each candidate, in the order given, to the least loaded node that serves it and has room.

    Load is measured per slot, so that a node of twice the slots takes twice the jobs. No node gets more
    than it wants, nor in one round more than its share by slots (or FEW a slot): who measured first how
    quick it is must not take everything. A candidate that nobody can take now never holds up the next one.
    """
    heaps: dict[int, list[tuple[float, int]]] = {}
    loads = [room.load for room in rooms]
    bounds = _bounds(len(candidates), rooms)
    planned = []
    for candidate in candidates:
        heap = heaps.get(candidate.contract)
        if heap is None:
            heap = heaps[candidate.contract] = _serving(rooms, loads, candidate.contract)
        chosen = _least_loaded(heap, rooms, loads, bounds)
        if chosen is None:
            continue
        loads[chosen] += 1
        room = rooms[chosen]
        planned.append(Assignment(candidate.id, room.node, room.incarnation, candidate.contract))
    return planned


def _pressure(room: Room, load: int) -> float:
    return load / max(1, room.slots)


def _serving(rooms: Sequence[Room], loads: list[int], contract: int) -> list[tuple[float, int]]:
    heap = [(_pressure(r, loads[i]), i) for i, r in enumerate(rooms) if contract in r.contracts]
    heapq.heapify(heap)
    return heap


def _bounds(candidates: int, rooms: Sequence[Room]) -> list[int]:
    """The load up to which each node may be filled in this round."""
    slots = sum(max(1, room.slots) for room in rooms)
    shares = (max(FEW, -(-candidates // slots)) * max(1, room.slots) for room in rooms)
    return [min(room.capacity, room.load + share) for room, share in zip(rooms, shares, strict=True)]


def _least_loaded(
    heap: list[tuple[float, int]], rooms: Sequence[Room], loads: list[int], bounds: list[int]
) -> int | None:
    while heap:
        pressure, index = heap[0]
        now = _pressure(rooms[index], loads[index])
        if loads[index] >= bounds[index]:
            heapq.heappop(heap)
        elif now > pressure:  # another contract's jobs went there since
            heapq.heapreplace(heap, (now, index))
        else:
            heapq.heapreplace(heap, (_pressure(rooms[index], loads[index] + 1), index))
            return index
    return None


class Outlook:
    """How far down the queue a round looks: about as far as rounds have lately got, further when in doubt.

    Whoever looks at thousands of jobs to place a hundred wastes most of the look.
    """

    def __init__(self, least: int, most: int) -> None:
        self._least, self._most = least, most
        self.size = least

    def learn(self, longest: int, seen: int, planned: int, room_left: bool) -> bool:
        """Takes in a round that saw so many jobs, `longest` of one contract, and placed some.

        True: look again at once. With room left behind jobs that found none there may be others further
        down that it is for (I7).
        """
        full = longest == self.size
        if full and (planned == seen or room_left):
            grown, self.size = self.size, min(self._most, 2 * self.size)
            return planned == seen or self.size > grown
        if planned * 4 < self.size:
            self.size = max(self._least, self.size // 2)
        return False


def prefetch(slots: int, mean_seconds: float, *, horizon: float = 1.0, most_per_slot: int = 400) -> int:
    """How many jobs a node should hold: what its slots finish in `horizon` seconds, at least one each."""
    if mean_seconds <= 0:
        return slots
    return slots * int(min(most_per_slot, max(1.0, horizon / mean_seconds)))
