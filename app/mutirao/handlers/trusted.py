"""Files that run with this node's rights: nobody but root and its own user may be able to change them."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

from mutirao.errors import ContractError


def require_trusted(path: Path) -> os.stat_result:
    """The status of what is there; ContractError if it belongs to, or can be changed by, anybody else."""
    try:
        status = path.stat()
    except OSError as error:
        raise ContractError(f"{path}: {error.strerror}") from None
    if status.st_uid not in {0, os.geteuid()}:
        raise ContractError(
            f"{path} belongs to {_name(status.st_uid)}, who could change what runs here",
            hint=f"chown {_name(os.geteuid())} {path}",
        )
    if status.st_mode & 0o022:
        raise ContractError(
            f"{path} can be written to by others, who could change what runs here",
            hint=f"chmod go-w {path}",
        )
    return status


def require_program(path: Path) -> None:
    """ContractError unless it is a trusted file that this user may execute."""
    if not stat.S_ISREG(require_trusted(path).st_mode):
        raise ContractError(f"{path} is not a file")
    if not os.access(path, os.X_OK):
        raise ContractError(f"{path} is not executable", hint=f"chmod +x {path}")


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)
