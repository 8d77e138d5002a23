"""Work for several threads that can be given up half-way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def spread(work: Callable[[deque[T]], R], items: Iterable[T], threads: int) -> list[R]:
    """Runs `work` on so many threads, which take from one queue; it is emptied when the caller is stopped."""
    queue = deque(items)
    with ThreadPoolExecutor(threads) as pool:
        try:
            return [future.result() for future in [pool.submit(work, queue) for _ in range(threads)]]
        except BaseException:
            queue.clear()
            raise
