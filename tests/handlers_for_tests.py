"""Handlers that misbehave in known ways; give this file's path as a handler module."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, JsonValue

from mutirao.contract import Context, Discard, Payload, Retry, handler


class Family(Payload):
    """Where to write the pids, one a line, this process's first; and how long all of them live."""

    pids: str
    seconds: float = 600.0
    then: Literal["wait", "return", "exit", "kill"] = "wait"


@handler("spawn_setsid", timeout=60.0)
def spawn_setsid(payload: Family, context: Context) -> list[int]:
    """Starts `env -i setsid sleep` twice, once as an orphan, then waits, returns or dies."""
    hidden = [shutil.which("env"), "-i", shutil.which("setsid"), shutil.which("sleep"), str(payload.seconds)]
    child = subprocess.Popen(hidden)
    quiet = "</dev/null >/dev/null 2>&1"
    orphan = subprocess.run(
        ["sh", "-c", f"{' '.join(map(str, hidden))} {quiet} & echo $!"],
        check=True,
        capture_output=True,
        text=True,
    )
    pids = [os.getpid(), child.pid, int(orphan.stdout)]
    _write_whole(payload.pids, "".join(f"{pid}\n" for pid in pids))
    if payload.then == "wait":
        time.sleep(payload.seconds)
    elif payload.then == "exit":
        os._exit(3)
    elif payload.then == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    return pids


class Hold(Payload):
    """Where to write this process's pid, and for how many whole seconds to hold the lock."""

    pids: str
    seconds: int = 600


@handler("hold_gil", timeout=60.0)
def hold_gil(payload: Hold) -> None:
    """Sleeps in C code that does not release the interpreter lock."""
    _write_whole(payload.pids, f"{os.getpid()}\n")
    ctypes.PyDLL(None).sleep(payload.seconds)


class Crash(Payload):
    """How the handler takes its runner with it."""

    how: Literal["exit", "kill", "segfault"]


@handler("crash")
def crash(payload: Crash) -> None:
    """Ends its own runner."""
    if payload.how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.SIGKILL if payload.how == "kill" else signal.SIGSEGV)


class Record(Payload):
    """A file to append to, and how long to sleep before."""

    file: str
    seconds: float = Field(default=0.0, ge=0)
    node: str | None = None


@handler("record")
def record(payload: Record, context: Context) -> None:
    """Sleeps, then appends {job, attempt, node, pid, start, end} (CLOCK_BOOTTIME) in one write."""
    start = _boottime()
    time.sleep(payload.seconds)
    line = {
        "job": str(context.job_id),
        "attempt": context.attempt,
        "node": payload.node,
        "pid": os.getpid(),
        "start": start,
        "end": _boottime(),
    }
    with Path(payload.file).open("a") as file:
        file.write(json.dumps(line) + "\n")


class Leave(Payload):
    """What the handler leaves running when it returns."""

    what: Literal["child", "thread", "daemon_thread", "forked_return", "chain", "chain_in_group"]


@handler("leave")
def leave(payload: Leave) -> list[int]:
    """Returns its own pid and that of what it left."""
    if payload.what == "child":
        return [os.getpid(), subprocess.Popen([shutil.which("sleep") or "", "600"]).pid]
    if payload.what == "forked_return":
        return [os.getpid(), os.fork()]
    if payload.what.startswith("chain"):
        return [os.getpid(), _chain(own_group=payload.what == "chain")]
    thread = threading.Thread(target=time.sleep, args=(600,), daemon=payload.what == "daemon_thread")
    thread.start()
    return [os.getpid(), thread.native_id or 0]


class Raise(Payload):
    """What to raise."""

    what: Literal["retry", "discard", "exit", "nul", "broken", "recursion", "validation"]


class Broken(Exception):
    """An exception that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@handler("raise")
def raise_(payload: Raise) -> None:
    """Raises what it is told to."""
    if payload.what == "recursion":
        raise_.run(payload, None)  # type: ignore[arg-type]
    if payload.what == "validation":
        Raise.model_validate({})
    if payload.what == "exit":
        sys.exit(0)
    raise {
        "retry": Retry("busy", after=7.5),
        "discard": Discard("no use"),
        "nul": RuntimeError("a\0b\ud800c"),
        "broken": Broken(),
    }[payload.what]


class Value(Payload):
    """A Python expression."""

    python: str


@handler("give")
def give(payload: Value) -> JsonValue:
    """Returns what the expression gives."""
    return _evaluate(payload.python)


@handler("give_number")
def give_number(payload: Value) -> int:
    """Says that it returns a number."""
    return int.__new__(int, 1) if payload.python == "right" else _evaluate("'wrong'")


class Blob(Payload):
    """A text of any length."""

    text: str


@handler("measure")
def measure(payload: Blob) -> dict[str, int]:
    """How long the text was, and how many descriptors this process has open."""
    return {"length": len(payload.text), "descriptors": len(list(Path("/proc/self/fd").iterdir()))}


def _chain(*, own_group: bool) -> int:
    """Starts a process that goes on in one child after another; its group."""
    pid = os.fork()
    if pid:
        return pid if own_group else os.getpgrp()
    if own_group:
        os.setsid()
    until = time.monotonic() + 600
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
        time.sleep(0.002)
    os._exit(0)


def _boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _evaluate(text: str) -> Any:
    return eval(text)


def _write_whole(path: str, text: str) -> None:
    new = Path(f"{path}.new")
    new.write_text(text)
    new.rename(path)
