"""Keeps children running: an end is seen at once, a failed child starts again, none is left at the end."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from mutirao.embedded.children import Child
from mutirao.embedded.process import Process, stop_all, tail
from mutirao.embedded.signals import Signals

LAST_WORDS = 300


class Supervisor:
    """Owns children; must live in the main thread, whose death is their signal to die."""

    def __init__(self, signals: Signals, *, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._signals = signals
        self._say = say
        self._changed = changed
        self._children: list[Child] = []
        self._selector = selectors.DefaultSelector()

    def start(self, children: Sequence[Child]) -> None:
        """Starts children and looks after them from now on."""
        for child in children:
            with self._signals.shielded():
                self._children.append(child)
                self._launch(child)
        self._changed()

    def adopt(self, child: Child) -> None:
        """Looks after a child that somebody else has started."""
        self._children.append(child)
        child.watch(time.monotonic())
        self._register(child)

    def watch(self, timeout: float | None = None) -> None:
        """Waits for an end, a due restart or the timeout; does what is due, then returns."""
        ready = self._selector.select(self._patience(timeout))
        with self._signals.shielded():
            for key, _ in ready:
                self._end(key.data)
            due = [child for child in self._children if self._is_due(child)]
            for child in due:
                self._launch_again(child)
        if ready or due:
            self._changed()

    def stop(self, children: Sequence[Child], number: signal.Signals, patience: float) -> None:
        """Ends children for good: signal, patience (less after a second request), SIGKILL."""
        running = self.release(children)
        stop_all(running, number, patience, hurry=lambda: self._signals.hurry)

    def release(self, children: Sequence[Child]) -> list[Process]:
        """Looks after these children no more; returns those that still run."""
        running = [child.process for child in children if child.process is not None]
        for child in children:
            child.due = None
            if child.descriptor is not None:
                self._selector.unregister(child.descriptor)
            child.close()
        return running

    def _launch(self, child: Child) -> None:
        child.start(time.monotonic())
        self._register(child)

    def _launch_again(self, child: Child) -> None:
        try:
            self._launch(child)
        except OSError as error:
            # A full disk or a full process table passes; whoever gave up now would take the others along.
            child.postpone(time.monotonic())
            self._say(f"{child.name} cannot be started: {error}; trying again in {child.delay:.1f} s")

    def _register(self, child: Child) -> None:
        assert child.descriptor is not None
        self._selector.register(child.descriptor, selectors.EVENT_READ, child)

    def _end(self, child: Child) -> None:
        assert child.descriptor is not None
        self._selector.unregister(child.descriptor)
        pid = child.pid
        status = child.ended(time.monotonic())
        how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"exited with {status}"
        then = (
            f"starting it again in {child.delay:.1f} s" if child.due is not None else "not starting it again"
        )
        last = _last_words(child.log) if status > 0 and child.log is not None else ""
        why = f" after saying: {last[:LAST_WORDS]}" if last else ""
        self._say(f"{child.name} (pid {pid}) {how}{why}; {then}")

    def _is_due(self, child: Child) -> bool:
        return child.due is not None and child.due <= time.monotonic()

    def _patience(self, timeout: float | None) -> float | None:
        waits = [child.due - time.monotonic() for child in self._children if child.due is not None]
        if timeout is not None:
            waits.append(timeout)
        return max(0.0, min(waits)) if waits else None


def _last_words(log: Path) -> str:
    """The last line of a log; with the one before it when that is what a hint is for."""
    last = tail(log, 1).strip()
    return "; ".join(map(str.strip, tail(log, 2).splitlines())) if last.startswith("hint: ") else last
