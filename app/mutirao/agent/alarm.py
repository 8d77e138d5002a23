"""A descriptor that wakes whoever waits for it, rung from any thread."""

from __future__ import annotations

import os
import select
import weakref
from contextlib import suppress


class Alarm:
    """Rings until it is heard; closed with its last holder, since another thread may be about to ring."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        weakref.finalize(self, os.close, self._descriptor)

    def fileno(self) -> int:
        """What to wait for."""
        return self._descriptor

    def ring(self) -> None:
        """Wakes who waits, or who will."""
        os.eventfd_write(self._descriptor, 1)

    def heard(self) -> bool:
        """Whether it rang; it is silent again."""
        with suppress(BlockingIOError):
            return os.eventfd_read(self._descriptor) > 0
        return False

    def wait(self, timeout: float) -> None:
        """Returns when it rings, silent again, or after `timeout`."""
        select.select([self], [], [], timeout)
        self.heard()
