"""Starting and ending child processes: none outlives its parent, none can refuse to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from mutirao.embedded.account import Account, find_tool

LOG_LIMIT = 16 * 1024 * 1024

# A parent that died before setpriv asked for the signal will never cause one.
_UNLESS_ORPHANED = '[ "$PPID" = "$1" ] || exit 1; shift; exec "$@"'

Process = subprocess.Popen[bytes]


def spawn(
    argv: Sequence[str],
    *,
    log: Path,
    env: Mapping[str, str],
    owner: Account | None = None,
    death_signal: signal.Signals = signal.SIGKILL,
    cwd: Path | None = None,
) -> Process:
    """Starts `argv` in a session of its own; when the calling *thread* ends it gets `death_signal`.

    setpriv and the shell become the program itself, so the pid is the program's; Python code after a fork
    would not be safe in a process with threads.
    """
    prefix = [find_tool("setpriv"), "--pdeathsig", death_signal.name.removeprefix("SIG")]
    if owner is not None:
        prefix += owner.prefix()
    with _open_log(log) as output:
        return subprocess.Popen(
            [*prefix, "--", "/bin/sh", "-c", _UNLESS_ORPHANED, "sh", str(os.getpid()), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            cwd=cwd or "/",
            start_new_session=True,  # Ctrl-C in a terminal is the supervisor's to pass on, in its order
        )


def stop(process: Process, *steps: tuple[signal.Signals, float]) -> None:
    """Sends each signal and waits its seconds; then SIGKILL. Returns once the process is gone."""
    for number, patience in steps:
        if process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    if process.poll() is None:
        process.kill()
        process.wait()


def stop_all(
    processes: Sequence[Process], number: signal.Signals, patience: float, *, hurry: Callable[[], bool]
) -> None:
    """Signals all and waits together, at most `patience` seconds or until `hurry`; then SIGKILL."""
    deadline = time.monotonic() + patience
    for process in processes:
        process.send_signal(number)
    left = list(processes)
    while left := [process for process in left if process.poll() is None]:
        if time.monotonic() > deadline or hurry():
            break
        time.sleep(0.02)
    for process in left:
        process.kill()
        process.wait()


def tail(log: Path, lines: int = 5) -> str:
    """The last lines of a log, for an error message."""
    try:
        text = log.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _open_log(log: Path) -> BinaryIO:
    log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_suffix(".log.1"))
    return log.open("ab")
