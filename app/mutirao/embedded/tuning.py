"""How the embedded PostgreSQL is set up: for throughput on a small machine, with every commit on the disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_MIB = 1024 * 1024


def options(connections: int) -> dict[str, str]:
    """Server settings; fsync and synchronous_commit stay on, whatever else is tuned."""
    return {
        "listen_addresses": "",
        "unix_socket_permissions": "0700",
        "max_connections": str(connections + 10),
        "fsync": "on",
        "synchronous_commit": "on",
        "shared_buffers": f"{_shared_buffers()}MB",
        "wal_buffers": "16MB",
        "min_wal_size": "256MB",
        "max_wal_size": "2GB",
        "checkpoint_timeout": "15min",
        "wal_recycle": "on",
        "max_wal_senders": "0",
        "max_logical_replication_workers": "0",
        "jit": "off",
        "random_page_cost": "1.1",
        # The live table turns over completely many times a minute: dead rows must go at that pace.
        "autovacuum_naptime": "5s",
        "autovacuum_vacuum_cost_delay": "1ms",
        "autovacuum_max_workers": "2",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        "log_line_prefix": "%m [%p] %a ",
        # A restart after a crash is the supervisor's to see; the server's own is faster.
        "restart_after_crash": "on",
    }


def _shared_buffers() -> int:
    """A sixteenth of the memory, between 64 and 512 MiB."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(64, min(512, memory // _MIB // 16))


def major_version(binaries: Path) -> str:
    """The server's major version, as PG_VERSION in a data directory says it."""
    argv = [str(binaries / "postgres"), "--version"]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    return text.split()[2].split(".")[0]
