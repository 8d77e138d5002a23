"""Who this node is: a random id made at first start, held by one process at a time (DESIGN §5 Restart)."""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from pathlib import Path
from typing import IO
from uuid import UUID, uuid4

from mutirao.errors import AlreadyRunning, SettingsError
from mutirao.logs import get_logger

log = get_logger(__name__)


class NodeIdentity:
    """The node's id, locked against a second agent on this machine for as long as this object lives.

    Raises AlreadyRunning while another agent holds the state directory.
    """

    def __init__(self, state_dir: Path, runtime_dir: Path) -> None:
        for directory in (state_dir, runtime_dir):
            try:
                directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise SettingsError(f"cannot make {directory}: {error.strerror}") from error
        self._lock = _locked(state_dir / "lock")
        self.id = _load_or_make(state_dir / "node-id")
        # On tmpfs, so that neither a copied disk nor a reboot can pass for this very run of the machine.
        self._marker = runtime_dir / "incarnation"

    def last_incarnation(self) -> int | None:
        """The incarnation this machine itself registered last since it booted."""
        try:
            marker = json.loads(self._marker.read_text())
            return int(marker["incarnation"]) if marker["node"] == str(self.id) else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def remember(self, incarnation: int) -> None:
        """Notes the incarnation just registered; where that fails, the next start takes a little longer."""
        try:
            _write(self._marker, json.dumps({"node": str(self.id), "incarnation": incarnation}))
        except OSError as error:
            log.warning("incarnation_not_noted", path=str(self._marker), error=error.strerror)

    def close(self) -> None:
        """Lets another agent have the directory."""
        self._lock.close()


def _locked(path: Path) -> IO[str]:
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        pid = lock.read().strip() or "?"
        lock.close()
        raise AlreadyRunning(
            f"the agent with pid {pid} holds {path.parent}",
            hint="One agent per state directory: stop the other one, or set another `state_dir`.",
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _load_or_make(path: Path) -> UUID:
    try:
        return UUID(path.read_text().strip())
    except FileNotFoundError:
        _write(path, f"{uuid4()}\n")
        return UUID(path.read_text().strip())
    except ValueError:
        raise SettingsError(
            f"{path} does not hold a node id", hint="Remove the file to let the node join as a new one."
        ) from None


def _write(path: Path, text: str) -> None:
    """Replaces the file as a whole, so that a crash leaves the old or the new one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
