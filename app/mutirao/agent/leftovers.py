"""What a handler leaves behind in its runner, and its end."""

from __future__ import annotations

import os
import signal
import threading
import time
from _signal import getsignal  # type: ignore[import-not-found] # `signal` makes enumerations: 40 times slower

from mutirao.agent import proctree

_PATIENCE = 1.0
_DEALT_WITH = (
    signal.SIGALRM,
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGPIPE,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
)


class Signals:
    """What becomes of the signals that handlers deal with, as it was before any; for the main thread."""

    def __init__(self) -> None:
        found = {number: getsignal(number) for number in _DEALT_WITH}
        self._former = {number: what for number, what in found.items() if what is not None}

    def restore(self) -> None:
        """Stops the timer that a handler may have set, and forgets what it wanted done with signals.

        They would meet other attempts: with SIGCHLD ignored, every program seems to succeed.
        """
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, what in self._former.items():
            if getsignal(number) != what:
                signal.signal(number, what)


def end_children() -> bool:
    """Kills and reaps all that the handler started, however it hid; False if some would not go in time.

    The runner is their subreaper: what loses its parent becomes a child of the runner.
    """
    until = time.monotonic() + _PATIENCE
    while _reap():
        if time.monotonic() > until:
            return False
        own = os.getpgrp()
        for pid, group in proctree.children_of(os.getpid()):
            if group != own:
                proctree.kill_group(group)
            proctree.kill(pid)
        time.sleep(0.0005)
    return True


def _reap() -> bool:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def threads_left() -> bool:
    """True when the handler left threads running that nobody can end."""
    return threading.active_count() > 1 and any(
        not thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()
    )
