"""Handlers that leave a trace on disk, so that a test can see who ran when (I2), and what survived it."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutirao.contract import Context, handler
from mutirao.loop import boottime


@dataclass
class Probe:
    """`directory` gets one file per job; `family` leaves children in sessions of their own behind."""

    directory: str
    seconds: float = 0.0
    family: bool = False
    hold: bool = False


@handler("probe", timeout=120.0, max_retries=3)
def probe(payload: Probe, context: Context) -> None:
    """Works for `seconds`, with the interpreter lock held if `hold`, and writes down when and with whom."""
    path = Path(payload.directory) / f"{context.job_id}.jsonl"
    survivors = [pid for pid in _earlier(path) if _alive(pid)]
    pids = [os.getpid(), *(_family(payload.directory) if payload.family else ())]
    start = {
        "event": "start",
        "attempt": context.attempt,
        "at": boottime(),
        "pids": pids,
        "survivors": survivors,
    }
    _append(path, start)
    if payload.hold:
        # PyDLL keeps the interpreter lock during the call, so that no thread of this process runs meanwhile.
        ctypes.PyDLL(None).usleep(int(payload.seconds * 1e6))
    else:
        time.sleep(payload.seconds)
    _append(path, {"event": "end", "attempt": context.attempt, "at": boottime()})


def _family(directory: str) -> list[int]:
    """A child in its own session, and a grandchild whose parent is gone; neither has an environment."""
    null = subprocess.DEVNULL
    quiet: dict[str, Any] = {"stdin": null, "stderr": null, "env": {}, "cwd": directory}
    child = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True, stdout=null, **quiet)
    script = "/usr/bin/setsid /bin/sleep 601 >/dev/null & echo $!"
    shell = subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.PIPE, check=True, **quiet)
    return [child.pid, int(shell.stdout)]


def _earlier(path: Path) -> list[int]:
    """The processes of earlier attempts that never came to their end; a runner outlives those that did."""
    try:
        events = [json.loads(line) for line in path.read_text().splitlines()]
    except FileNotFoundError:
        return []
    ended = {event["attempt"] for event in events if event["event"] == "end"}
    pids = {pid for event in events if event["attempt"] not in ended for pid in event["pids"]}
    return sorted(pids - {os.getpid()})


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def _append(path: Path, line: dict[str, object]) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")
