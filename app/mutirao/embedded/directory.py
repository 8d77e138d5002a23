"""A cluster's data directory: who holds it, what marks its processes, and what it says of itself."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mutirao.errors import AlreadyRunning, MutiraoError

# What an aborted first start may leave before there is a cluster-id.
_OURS = frozenset(
    {"logs", "nodes", "postgres", "postgres.new", "secrets.json", "up.lock", "up.json", "lost+found"}
)
_SCRATCH = (".cluster-id.", ".secrets.json.", ".up.json.")
_MEMORY = Path("/dev/shm")  # noqa: S108 - only as the parent of a folder that is checked to be ours


class ClusterDirectory:
    """`<data>`: postgres/, redis/, nodes/<i>/, logs/ and up.json; one supervisor at a time holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        try:
            self._require_ours()
            # Root's servers run under another account, which must pass through.
            self.path.mkdir(parents=True, exist_ok=True, mode=0o755 if os.geteuid() == 0 else 0o700)
            for private in (self.logs, self.path / "nodes"):
                private.mkdir(exist_ok=True, mode=0o700)
        except OSError as error:
            raise _unusable(self.path, error) from None

    def _require_ours(self) -> None:
        """Raises where something else lives: nothing of ours may mix with it, or be taken for it."""
        if not self.path.exists() or (self.path / "cluster-id").exists():
            return
        names = sorted(entry.name for entry in self.path.iterdir())
        foreign = [name for name in names if name not in _OURS and not name.startswith(_SCRATCH)]
        if foreign:
            raise MutiraoError(
                f"{self.path} is not a cluster's data directory: it holds {foreign[0]}",
                hint="choose a new or an empty directory with --data",
            )

    @property
    def logs(self) -> Path:
        """Where every process's output goes."""
        return self.path / "logs"

    def node(self, number: int) -> Path:
        """The directory of node `number`, counted from 1."""
        path = self.path / "nodes" / str(number)
        path.mkdir(exist_ok=True, mode=0o700)
        return path

    @property
    def mark(self) -> str:
        """What every process of this cluster carries; a copy of the directory has another one."""
        file = self.path / "cluster-id"
        if not file.exists():
            _write(file, str(uuid.uuid4()))
        return f"{file.read_text().strip()}-{self.path.stat().st_ino}"

    @property
    def runtime(self) -> Path:
        """A directory in memory for sockets and markers, gone after a reboot, nobody else's."""
        parent = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        path = parent / f"mutirao-{uuid.uuid5(uuid.NAMESPACE_URL, self.mark).hex[:12]}"
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700)
        if path.is_symlink() or path.stat().st_uid != os.geteuid():
            raise MutiraoError(f"{path} belongs to somebody else", hint=f"remove {self.path}/cluster-id")
        return path

    @contextlib.contextmanager
    def held(self, port: int) -> Iterator[None]:
        """Holds the directory for this process; AlreadyRunning names who has it otherwise."""
        try:
            descriptor = os.open(self.path / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode()
            os.close(descriptor)
            raise self._taken(holder) from None
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()} {port}".encode(), 0)
            yield
        finally:
            os.close(descriptor)

    def describe(self, document: Mapping[str, Any]) -> None:
        """Replaces up.json, whole or not at all; it holds passwords, so it is ours alone."""
        _write(self.path / "up.json", json.dumps(document, indent=2) + "\n")

    def forget(self) -> None:
        """Removes up.json: nothing runs here."""
        (self.path / "up.json").unlink(missing_ok=True)

    def _taken(self, holder: str) -> AlreadyRunning:
        pid, _, port = holder.partition(" ")
        return AlreadyRunning(
            f"a cluster is already up: pid {pid}, data directory {self.path}, http://127.0.0.1:{port}",
            hint=f"use it, or end it with `kill {pid}`, or start another with --data and --port",
        )


def _unusable(path: Path, error: OSError) -> MutiraoError:
    return MutiraoError(
        f"cannot use the data directory {path}: {error.strerror}", hint="choose another with --data"
    )


def _write(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    scratch.rename(path)
