"""The one loop skeleton: a service writes only `run_once()`, which returns how long to wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from mutirao.errors import MutiraoError
from mutirao.logs import get_logger

log = get_logger(__name__)


def boottime() -> float:
    """Seconds since boot, suspended time included; the only clock that leases are measured by (I8)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timetable:
    """What one loop does only now and then; for that loop's thread alone."""

    def __init__(self) -> None:
        self._next: dict[str, float] = {}

    def due(self, what: str, every: float) -> bool:
        """True at first, then once in `every` seconds."""
        if boottime() < self._next.get(what, 0.0):
            return False
        self.postpone(what, every)
        return True

    def postpone(self, what: str, seconds: float) -> None:
        """Makes it due no sooner than that."""
        self._next[what] = boottime() + seconds


class Loop(threading.Thread):
    """Calls `run_once` until stopped; it returns seconds to wait, and 0 means there is more to do now."""

    def __init__(
        self,
        name: str,
        run_once: Callable[[], float],
        *,
        retry: float = 1.0,
        fatal: tuple[type[BaseException], ...] = (),
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._run_once = run_once
        self._retry = retry
        self._fatal = fatal
        self._on_fatal = on_fatal
        self._stopping = threading.Event()
        self._wakeup = threading.Event()

    def wake(self) -> None:
        """Ends the current wait, or the next one if none is going on."""
        self._wakeup.set()

    def stop(self, timeout: float | None = None) -> None:
        """Asks for the end, wakes the sleeper and waits up to `timeout` for it."""
        self._stopping.set()
        self._wakeup.set()
        if timeout is not None and self.is_alive() and threading.current_thread() is not self:
            self.join(timeout)

    @property
    def stopping(self) -> bool:
        """True once `stop` was called."""
        return self._stopping.is_set()

    def run(self) -> None:
        """The thread's body; errors end at this edge, logged and tried again."""
        while not self._stopping.is_set():
            self._wakeup.clear()
            delay = self._guarded()
            if delay > 0:
                self._wakeup.wait(delay)

    def _guarded(self) -> float:
        try:
            return self._run_once()
        except self._fatal as error:
            self._stopping.set()
            if self._on_fatal is not None:
                self._on_fatal(error)
            return 0.0
        except MutiraoError as error:
            log.warning("loop_failed", loop=self.name, error=error.code, message=error.message)
        except Exception:
            log.exception("loop_crashed", loop=self.name)
        return self._retry
