"""A program run for one attempt: what it is given, what is taken of it, and what its exit status means."""

from __future__ import annotations

import array
import errno
import fcntl
import os
import select
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mutirao.contract import Context, Discard, Failure, Retry
from mutirao.tail import Tail

_TICK = 100  # milliseconds until a cancel is noticed
_CHUNK = 1 << 16
_SHOWN = 2000  # characters of standard output that a failure is kept with


class ExitStatus(Failure):
    """The program ended with a status other than 0, or by a signal."""


def run_program(argv: Sequence[str], given: bytes, context: Context, take: Callable[[bytes], object]) -> None:
    """Runs a program to its end, `given` on its standard input; `take` gets what it writes to its output.

    Its standard error is the attempt's output. What `take` raises ends it at once. On a cancel it is sent
    SIGTERM, with its process group. Raises Retry for status 75 (EX_TEMPFAIL), Discard for 65 (EX_DATAERR),
    ExitStatus for any other but 0, each with the end of its standard output.
    """
    tail = Tail()

    def both(chunk: bytes) -> None:
        tail.add(chunk)
        take(chunk)

    with _start(argv, given, context) as process:
        try:
            _follow(process, context, both)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    written = tail.take()
    _judge(process.returncode, {"stdout": written.text()[-_SHOWN:]} if written else {})


def _start(argv: Sequence[str], given: bytes, context: Context) -> subprocess.Popen[bytes]:
    with _file_with(given) as standard_input:
        try:
            return subprocess.Popen(
                argv,
                stdin=standard_input,
                stdout=subprocess.PIPE,
                bufsize=0,
                env=_environment(context),
                process_group=0,
            )
        except OSError as error:
            if error.errno == errno.E2BIG:
                raise Discard("the arguments are too long for this system") from error
            raise


@contextmanager
def _file_with(content: bytes) -> Iterator[int]:
    """A file in memory: unlike a pipe it is no failure not to read it, and nobody need feed it."""
    descriptor = os.memfd_create("stdin", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


def _environment(context: Context) -> dict[str, str]:
    # The runner's own, which holds none of our settings.
    return os.environ | {
        "MUTIRAO_JOB_ID": str(context.job_id),
        "MUTIRAO_ATTEMPT": str(context.attempt),
        "MUTIRAO_IDEMPOTENCY_KEY": context.idempotency_key,
        "MUTIRAO_TIMEOUT": f"{context.remaining():.3f}",
    }


def _follow(process: subprocess.Popen[bytes], context: Context, take: Callable[[bytes], object]) -> None:
    """Until the program itself has ended: one that it left in the background may hold its output open."""
    assert process.stdout is not None
    output, ended = process.stdout.fileno(), os.pidfd_open(process.pid)
    try:
        poll = select.poll()
        poll.register(output, select.POLLIN)
        poll.register(ended, select.POLLIN)
        told = False
        while True:
            ready = dict(poll.poll(None if told else _TICK))
            if ended in ready:
                break
            if output in ready and not _pass_on(output, _CHUNK, take):
                poll.unregister(output)
            if not told and context.cancelled:
                told = True
                os.killpg(process.pid, signal.SIGTERM)
        _pass_on(output, _waiting_in(output), take)
    finally:
        os.close(ended)


def _pass_on(output: int, most: int, take: Callable[[bytes], object]) -> bool:
    chunk = os.read(output, most)
    take(chunk)
    return bool(chunk)


def _waiting_in(pipe: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def _judge(status: int, written: dict[str, str]) -> None:
    if status < 0:
        name = _signal_name(-status)
        raise ExitStatus(f"killed by {name}", details={"signal": name, **written})
    message, details = f"exit status {status}", {"exit_status": status, **written}
    if status == os.EX_TEMPFAIL:
        raise Retry(message, details=details)
    if status == os.EX_DATAERR:
        raise Discard(message, details=details)
    if status:
        raise ExitStatus(message, details=details)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # the real-time ones have no names of their own
        return f"signal {number}"
