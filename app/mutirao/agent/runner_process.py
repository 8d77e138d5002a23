"""A runner: takes one task after another off the node's queue and runs it. Started by the guard only.

Its slot says what it holds from right after the take until the report is out, so that a kill can name a task.
"""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import os
import signal
import socket
import sys

import msgspec

from mutirao.agent import leftovers
from mutirao.agent.execution import describe, execute
from mutirao.agent.frames import Report, read_frame
from mutirao.agent.inbox import Inbox
from mutirao.agent.runner_line import AttemptLink, Line
from mutirao.agent.runner_output import RunnerOutput, set_up_log
from mutirao.agent.shared import Shared, boottime_ns
from mutirao.agent.spawning import OUTPUT, RESULTS, SHARED, TASKS
from mutirao.domain.job import Outcome
from mutirao.registry import HandlerConfig, Registry, load_registry

_SECOND = 1_000_000_000


class Runner:
    """The loop of one runner process."""

    def __init__(self, index: int, tasks: socket.socket, results: socket.socket, shared: Shared) -> None:
        self._index = index
        self._inbox = Inbox(tasks)
        self._results = results
        self._line = Line(results, shared, index)
        self._shared = shared
        self._process = os.getpid()

    def load(self) -> Registry:
        """Loads the handlers that the agent names, and says so; on failure says why and exits."""
        mark, config = msgspec.msgpack.decode(read_frame(self._results), type=tuple[bytes, HandlerConfig])
        self._output = RunnerOutput(self._shared, self._index, mark)
        try:
            registry = load_registry(config)
        except Exception as error:  # noqa: BLE001 (a handler module may raise anything)
            self._line.say(Report(0, 0.0, 0.0, Outcome.FAILED, None, describe(error)))
            sys.exit(1)
        self._signals = leftovers.Signals()
        # What was imported stays: no collection need look at it again.
        gc.collect()
        gc.freeze()
        self._line.say(Report(0, 0.0, 0.0, Outcome.SUCCEEDED, marked=self._output.end_attempt()))
        return registry

    def serve(self, registry: Registry) -> None:
        """Runs tasks until the queue is closed."""
        shared, index = self._shared, self._index
        while sequence := self._inbox.take():
            taken = boottime_ns()
            shared.occupy(index, sequence, taken)
            work, payload = self._inbox.open()
            report = execute(
                registry, sequence, work, payload, taken / _SECOND, AttemptLink(self._line, sequence)
            )
            if os.getpid() != self._process:
                os._exit(1)  # a child that the handler forked must not go on as a second runner
            self._finish(report, taken)
            shared.vacate(index)

    def _finish(self, report: Report, taken: int) -> None:
        """Reports only once nothing is left; if that cannot be had, says it is the last and exits."""
        self._signals.restore()
        report.last = not leftovers.end_children() or leftovers.threads_left()
        report.seconds = (boottime_ns() - taken) / _SECOND
        report.marked = self._output.end_attempt()
        self._line.say(report)
        if report.last:
            os._exit(0)


def main() -> None:
    """Serves as runner number `argv[1]` on the descriptors that the guard has put in place."""
    for descriptor in (TASKS, RESULTS, SHARED, OUTPUT):
        os.set_inheritable(descriptor, False)
    # A function, not SIG_IGN: that would be passed on to every program a handler starts.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    faulthandler.enable()
    set_up_log()
    shared = Shared(SHARED)
    os.close(SHARED)
    runner = Runner(int(sys.argv[1]), socket.socket(fileno=TASKS), socket.socket(fileno=RESULTS), shared)
    with contextlib.suppress(EOFError, ConnectionError):  # the agent is gone: the guard ends this process
        runner.serve(runner.load())


if __name__ == "__main__":
    main()
