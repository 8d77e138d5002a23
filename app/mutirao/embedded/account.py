"""Who the embedded servers run as: us, or (we being root) an account that can do nothing else."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from mutirao.errors import MutiraoError, Unavailable

NAME = "mutirao-db"
_SYSTEM_PATH = f"{os.defpath}:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Account:
    """An unprivileged system account without a login."""

    name: str
    uid: int
    gid: int

    def own(self, path: Path) -> None:
        """Gives one path to this account."""
        os.chown(path, self.uid, self.gid)

    def prefix(self) -> list[str]:
        """What an argument list starts with to run as this account, with no other group."""
        return ["--reuid", str(self.uid), "--regid", str(self.gid), "--clear-groups"]


def server_account() -> Account | None:
    """The account for servers when we are root, made when missing; None when we are not root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(NAME)
    except KeyError:
        _create()
        entry = pwd.getpwnam(NAME)
    return Account(NAME, entry.pw_uid, entry.pw_gid)


def private_directory(path: Path, owner: Account | None) -> Path:
    """Makes `path` with mode 0700 for `owner`; the modes of its parents are left alone."""
    path.mkdir(parents=True, exist_ok=True)
    if owner is not None:
        owner.own(path)
    path.chmod(0o700)
    return path


def require_reach(owner: Account | None, directory: Path) -> None:
    """Raises unless `owner` can enter `directory`, naming the parent that shuts it out."""
    if owner is None:
        return
    for part in [*reversed(directory.parents), directory]:
        if not _succeeds(owner, ["test", "-x", str(part)]):
            raise Unavailable(
                f"the account {owner.name}, which runs the servers for root, cannot enter {part}",
                hint=f"choose a data directory that is open on the way, like /var/lib/mutirao/default,"
                f" or let it pass: chmod o+x {part}",
            )


def find_tool(name: str) -> str:
    """The path of a system tool, /usr/sbin included; raises when it is not installed."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_PATH}")
    if path is None:
        raise MutiraoError(f"{name} is not installed", hint="apt-get install passwd util-linux")
    return path


def _create() -> None:
    done = subprocess.run(
        [find_tool("useradd"), "--system", "--user-group", "--no-create-home",
         "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", NAME],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    # 9: another start made it in the meantime.
    if done.returncode not in (0, 9):
        raise MutiraoError(f"cannot make the account {NAME}: {done.stderr.strip()}")


def _succeeds(owner: Account, command: list[str]) -> bool:
    argv = [find_tool("setpriv"), *owner.prefix(), "--", *command]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0
