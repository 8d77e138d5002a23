"""The node's own places: its directories, what they hold, and its handlers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import UUID

import psutil

from mutirao.doctor.finding import Finding, fail, guarded, ok, warn
from mutirao.registry import HandlerConfig, check
from mutirao.settings import Settings

_MIB = 1 << 20
NO_ROOM, LITTLE_ROOM = 100 * _MIB, 1024 * _MIB
_CORRECT = "correct it, see docs/handlers.md: the agent does not start without"
_IN_MEMORY = frozenset({"tmpfs", "ramfs"})


def node(settings: Settings) -> Iterator[Finding]:
    """What an agent needs of this machine before it asks anybody else."""
    for name, look in LOOKS.items():
        yield from guarded(name, partial(_alone, look, settings))
    yield from guarded("node.handlers", partial(_handlers, settings))


def _alone(look: Callable[[Settings], Finding], settings: Settings) -> Iterator[Finding]:
    yield look(settings)


def node_id(settings: Settings) -> UUID | None:
    """The node's identity, None before its first start or where it cannot be read."""
    with suppress(OSError, ValueError):
        return UUID((settings.state_dir / "node-id").read_text().strip())
    return None


def _usable(check: str, path: Path) -> Finding:
    if not _there(path):
        hint = f"made at the first start if {_existing(path)} is writable"
        return (warn if os.access(_existing(path), os.W_OK) else fail)(check, f"{path} does not exist", hint)
    if not path.is_dir():
        return fail(check, f"{path} is not a directory", "remove it, or set another one")
    if not os.access(path, os.W_OK | os.X_OK):
        hint = f"own it by the user the agent runs as, or mount it writable ({_mount(path)[0]})"
        return fail(check, f"{path} cannot be written to", hint)
    if path.stat().st_mode & 0o022:
        return warn(check, f"{path} can be written to by others", f"chmod go-w {path}")
    return ok(check, str(path))


def _state_dir(settings: Settings) -> Finding:
    return _usable("node.state_dir", settings.state_dir)


def _runtime_dir(settings: Settings) -> Finding:
    return _usable("node.runtime_dir", settings.runtime_dir)


def _room(settings: Settings) -> Finding:
    path = settings.state_dir
    disk = os.statvfs(_existing(path))
    free, said = disk.f_bavail * disk.f_frsize, f"{disk.f_bavail * disk.f_frsize // _MIB} MiB free at {path}"
    inodes_left = disk.f_favail / disk.f_files if disk.f_files else 1.0
    hint = "make room: with a full disk nothing can be stored, logged or started"
    if inodes_left < 0.01:
        return fail("node.room", f"no inodes are left at {path}", hint)
    if free < NO_ROOM:
        return fail("node.room", said, hint)
    if free < LITTLE_ROOM or inodes_left < 0.05:
        return warn("node.room", f"{said}, {inodes_left:.0%} of the inodes", hint)
    return ok("node.room", said)


def _volatile(settings: Settings) -> Finding:
    path = settings.runtime_dir
    mount, kind = _mount(path)
    if kind not in _IN_MEMORY:
        hint = "set `runtime_dir` below /run or /dev/shm: what is there must be gone after a reboot"
        return warn(
            "node.volatile", f"runtime_dir {path} is on {kind or 'an unknown file system'} ({mount})", hint
        )
    return ok("node.volatile", f"runtime_dir is on {kind}")


def _identity(settings: Settings) -> Finding:
    mine = node_id(settings)
    if mine is None:
        return warn("node.identity", "no identity yet", "made at the agent's first start")
    marker = settings.runtime_dir / "incarnation"
    try:
        named = json.loads(marker.read_text())["node"]
    except FileNotFoundError:
        return ok("node.identity", str(mine))
    except (OSError, ValueError, KeyError, TypeError):
        return warn(
            "node.identity", f"{marker} cannot be read", "remove it: the next start only takes 3 s longer"
        )
    if named != str(mine):
        return warn(
            "node.identity", f"{marker} is another node's", "give each agent on a machine its own runtime_dir"
        )
    if marker.stat().st_mtime < psutil.boot_time() - 1:
        return warn(
            "node.identity", f"{marker} is older than the last boot", "set a runtime_dir that is in memory"
        )
    return ok("node.identity", str(mine))


def _running(settings: Settings) -> Finding:
    hint = "start it: mutirao agent --config FILE"
    try:
        lock = (settings.state_dir / "lock").stat()
    except (FileNotFoundError, NotADirectoryError):
        return warn("node.agent", "no agent has run here yet", hint)
    # Looked up, not tried: an agent that starts this moment must not be refused because of us.
    held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    pid = next((line[4] for line in held if line[1] == "FLOCK" and line[5].endswith(f":{lock.st_ino}")), None)
    if pid is None:
        return fail("node.agent", "its agent does not run", hint)
    return ok("node.agent", f"its agent runs, pid {pid}")


def _handlers(settings: Settings) -> Iterator[Finding]:
    places = check(HandlerConfig.of(settings))
    broken = [place for place in places if place.error]
    for place in broken:
        yield fail("node.handlers", f"{place.origin}: {place.error}", place.hint or _CORRECT)
    if not broken:
        names = sorted(name for place in places for name in place.handlers)
        yield ok("node.handlers", f"{len(names)} load: {', '.join(names)}")


def _there(path: Path) -> bool:
    # What lies behind a closed door is not there for us.
    with suppress(PermissionError):
        return path.exists()
    return False


def _existing(path: Path) -> Path:
    return next((one for one in (path, *path.parents) if _there(one)), Path("/"))


def _mount(path: Path) -> tuple[str, str]:
    """Where the file system of `path` is mounted, and what kind it is."""
    real = _existing(path).resolve()
    kinds = {mount.mountpoint: mount.fstype for mount in psutil.disk_partitions(all=True)}
    for parent in (real, *real.parents):
        if str(parent) in kinds:
            return str(parent), kinds[str(parent)]
    return "/", ""


LOOKS: dict[str, Callable[[Settings], Finding]] = {
    "node.state_dir": _state_dir,
    "node.runtime_dir": _runtime_dir,
    "node.room": _room,
    "node.volatile": _volatile,
    "node.identity": _identity,
    "node.agent": _running,
}
