"""A handler that does what it is told, in Python; give this file's path as a handler module."""

from __future__ import annotations

import ctypes
import io
import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from pydantic import JsonValue

from mutirao.contract import Context, Payload, handler


class Told(Payload):
    """Statements; what they leave in `result` is the result."""

    python: str


def _do(payload: Told, context: Context) -> Any:
    names: dict[str, Any] = {
        "context": context,
        "ctypes": ctypes,
        "io": io,
        "os": os,
        "signal": signal,
        "subprocess": subprocess,
        "sys": sys,
        "threading": threading,
        "time": time,
        "result": None,
    }
    exec(payload.python, names)
    return names["result"]


@handler("do", timeout=60.0, max_retries=0)
def do(payload: Told, context: Context) -> JsonValue:
    """Carries out the statements."""
    return _do(payload, context)  # type: ignore[no-any-return]


@handler("do_with_grace", timeout=60.0, max_retries=0, cancel_grace=30.0)
def do_with_grace(payload: Told, context: Context) -> JsonValue:
    """The same, and hears of a cancel half a minute before it is killed."""
    return _do(payload, context)  # type: ignore[no-any-return]


@handler("do_with_short_grace", timeout=60.0, max_retries=0, cancel_grace=0.5)
def do_with_short_grace(payload: Told, context: Context) -> JsonValue:
    """The same, and hears of a cancel half a second before it is killed."""
    return _do(payload, context)  # type: ignore[no-any-return]


# Before any job: the operator's to see.
print("loaded without a job")
