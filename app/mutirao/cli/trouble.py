"""What the system refuses, in words: which path, and what to do about it."""

from __future__ import annotations

import errno

from mutirao.errors import MutiraoError

_HINTS = {
    errno.ENOSPC: "the disk is full: make room on it",
    errno.EDQUOT: "the quota is used up: make room, or have it raised",
    errno.EROFS: "it is on a read-only file system: choose another place, or mount it writable",
    errno.EACCES: "this user may not: change its owner or mode, or run as another user",
    errno.EPERM: "this user may not: change its owner or mode, or run as another user",
    errno.EMFILE: "too many open files: raise the limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine",
    errno.ENOMEM: "no memory is left on this machine",
}


def explain(error: OSError) -> MutiraoError:
    """The same as one of our errors, to be reported like any other."""
    where = f"{error.filename}: " if error.filename else ""
    return MutiraoError(f"{where}{error.strerror or error}", hint=_HINTS.get(error.errno or 0, ""))
