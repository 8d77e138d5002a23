"""A disk for one PostgreSQL that a test can fill up, as root or not."""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from mutirao.embedded.account import find_tool, server_account
from mutirao.embedded.postgres import Postgres
from tests.support.processes import children

# Little write-ahead log, so that the disk fills with data; what is committed here must really be there.
OPTIONS = {"shared_buffers": "32MB", "wal_buffers": "1MB", "min_wal_size": "32MB", "max_wal_size": "32MB"}
_SIZE_MIB = 160
# A segment of the write-ahead log still fits, no table grows beyond it.
_LARGEST_FILE = 16 << 20
_BLOCK = 64 << 10


class Disk(Protocol):
    """What can be filled and emptied again."""

    def fill(self) -> None:
        """From here on nothing can grow."""

    def starve(self) -> None:
        """Nor can the write-ahead log begin a new segment."""

    def free(self) -> None:
        """There is room again."""


class Mounted:
    """A small file system in memory: full is full, for every file."""

    def __init__(self, home: Path) -> None:
        self._filler = home / "filler"

    def fill(self) -> None:
        with self._filler.open("wb", buffering=0) as file:
            try:
                while file.write(bytes(_BLOCK)) == _BLOCK:
                    pass
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise

    def starve(self) -> None:
        self.fill()

    def free(self) -> None:
        self._filler.unlink()


class Limited:
    """Without the right to mount: the server's processes may not let a file grow further.

    PostgreSQL ignores SIGXFSZ in order that such a limit works like a full disk.
    """

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        account = server_account()
        self._prefix = [find_tool("setpriv"), *account.prefix(), "--"] if account else []

    def fill(self) -> None:
        self._limit(str(_LARGEST_FILE))

    def starve(self) -> None:
        self._limit(str(_BLOCK))

    def free(self) -> None:
        self._limit("unlimited")

    def _limit(self, most: str) -> None:
        assert self._postgres.process is not None
        if self._postgres.process.poll() is not None:
            return
        server = self._postgres.process.pid
        # The server first: whoever it starts meanwhile inherits the limit.
        for pid in (server, *children(server)):
            argv = [find_tool("prlimit"), "--pid", str(pid), f"--fsize={most}:unlimited"]
            done = subprocess.run([*self._prefix, *argv], check=False, capture_output=True)
            assert done.returncode == 0 or pid not in children(server), done.stderr


@contextmanager
def small_disk(home: Path) -> Iterator[tuple[Postgres, Disk]]:
    """A running PostgreSQL on a disk of its own."""
    home.mkdir(mode=0o711)
    mount = ["-t", "tmpfs", "-o", f"size={_SIZE_MIB}m,mode=0711", "mutirao-test", str(home)]
    mounted = subprocess.run(["mount", *mount], check=False, capture_output=True).returncode == 0
    try:
        postgres = Postgres(home, home, options=OPTIONS)
        try:
            postgres.start()
            yield postgres, Mounted(home) if mounted else Limited(postgres)
        finally:
            postgres.stop()
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(home)], check=True)
