"""Structured logs: events are emitted in code and formatted here, once."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import Any, TextIO

import structlog


def get_logger(name: str) -> Any:
    """A logger whose events are names with fields: `log.info("job_claimed", job=…)`."""
    return structlog.get_logger(name)


class _Forgiving:
    """Loses lines where the disk is full or the reader gone: no thread may end for a log line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def configure(level: str = "info", *, json: bool = False) -> None:
    """Sends every event at or above `level` to standard error, one line each."""
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if json
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(),
            # No local variables: they hold passwords.
            exception_formatter=structlog.dev.plain_traceback,
        )
    )
    # The driver warns of every transaction that PostgreSQL refuses; the store tells what matters of that.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info if json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level.upper())),
        logger_factory=structlog.PrintLoggerFactory(_Forgiving(sys.stderr)),  # type: ignore[arg-type]
        cache_logger_on_first_use=True,
    )
