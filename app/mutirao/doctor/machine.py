"""The machine and its kernel: clocks, limits, what the guard needs."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from collections.abc import Callable, Iterator

import psutil

from mutirao.doctor.finding import Finding, fail, ok, warn
from mutirao.loop import boottime

_TIME_ERROR = 5
_PR_GET_CHILD_SUBREAPER = 37
_MIB = 1 << 20
LOW_MEMORY, ENOUGH_FILES = 256 * _MIB, 1024


def machine() -> Iterator[Finding]:
    """Needs no settings."""
    for check in (_suspended, _synchronised, _guard_calls, _memory, _swap, _files):
        yield check()


def _suspended() -> Finding:
    asleep = boottime() - time.monotonic()
    if asleep > 1.0:
        return warn(
            "machine.suspend",
            f"was suspended for {asleep:.0f} s since it booted",
            "a node that sleeps is declared lost: forbid suspending (systemctl mask suspend.target)",
        )
    return ok("machine.suspend", "never suspended since it booted")


def _synchronised() -> Finding:
    # The kernel knows whether anything keeps its clock right, whichever program does.
    libc = ctypes.CDLL(None, use_errno=True)
    state = libc.adjtimex(ctypes.create_string_buffer(512))
    if state == _TIME_ERROR:
        return warn(
            "machine.clock",
            "nothing synchronises this machine's clock",
            "leases do not mind, times shown do: run chrony or systemd-timesyncd",
        )
    if state < 0:
        return warn(
            "machine.clock", "the kernel does not say whether the clock is right", "see `timedatectl`"
        )
    return ok("machine.clock", "synchronised")


def _guard_calls() -> Finding:
    calls: tuple[tuple[str, Callable[[], object]], ...] = (
        ("pidfd_open", lambda: os.close(os.pidfd_open(os.getpid()))),
        ("child subreapers", _get_subreaper),
        ("CLOCK_BOOTTIME", boottime),
    )
    for name, call in calls:
        try:
            call()
        except OSError as error:
            return fail(
                "machine.kernel",
                f"{name}: {error.strerror}",
                "use Linux 5.3 or newer, and let containers call it",
            )
    return ok("machine.kernel", f"Linux {os.uname().release} has what the guard needs")


def _get_subreaper() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(ctypes.c_int()), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl refused")


def _memory() -> Finding:
    available = psutil.virtual_memory().available
    said = f"{available // _MIB} MiB available"
    if available < LOW_MEMORY:
        return warn(
            "machine.memory", said, "lower `slots`, or find what uses it: the kernel may kill runners"
        )
    return ok("machine.memory", said)


def _swap() -> Finding:
    swap = psutil.swap_memory()
    if swap.total and swap.percent > 50:
        return warn(
            "machine.swap",
            f"{swap.percent:.0f} % used",
            "an agent that is swapped out misses its beats: add memory",
        )
    return ok("machine.swap", f"{swap.percent:.0f} % used" if swap.total else "none")


def _files() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit != resource.RLIM_INFINITY and limit < ENOUGH_FILES:
        return warn(
            "machine.files", f"at most {limit} open files", f"ulimit -n {ENOUGH_FILES}, or LimitNOFILE="
        )
    return ok("machine.files", "any number of open files" if limit < 0 else f"at most {limit} open files")
