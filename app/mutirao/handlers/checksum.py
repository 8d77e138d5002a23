"""`checksum`: hashes a file below the allowed roots, and none elsewhere."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from mutirao.contract import Context, Discard, HandlerDefaults, Payload

_CHUNK = 1 << 20


class File(Payload):
    """A file by its absolute path, and how to hash it."""

    path: str = Field(min_length=1, max_length=4096, pattern=r"^/[^\x00]*$")
    algorithm: Literal["sha256", "sha512", "sha3_256", "blake2b", "blake2s"] = "sha256"


class Digest(Payload):
    """The digest of `size` bytes, in hexadecimal."""

    path: str
    algorithm: str
    digest: str
    size: int


class Checksum:
    """Hashes one file; neither `..` nor a symbolic link, however swapped, leads out of the roots."""

    name = "checksum"
    payload_type = File
    result_type = Digest
    defaults = HandlerDefaults()

    def __init__(self, roots: Sequence[str]) -> None:
        self._roots = [Path(os.path.realpath(root)) for root in roots]

    def run(self, payload: File, context: Context) -> Digest:
        """The digest of the file's content as it is now."""
        real = os.path.realpath(payload.path)
        self._require_allowed(real, payload.path)
        # O_NONBLOCK: opening a FIFO must not hang before fstat can refuse it.
        descriptor = os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # A directory may have been swapped for a link since: what counts is what was opened.
            self._require_allowed(str(Path(f"/proc/self/fd/{descriptor}").readlink()), payload.path)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Discard(f"{payload.path} is not a regular file")
            digest, size = _hash(descriptor, payload.algorithm)
        finally:
            os.close(descriptor)
        return Digest(path=payload.path, algorithm=payload.algorithm, digest=digest, size=size)

    def _require_allowed(self, real: str, asked: str) -> None:
        if not any(Path(real).is_relative_to(root) for root in self._roots):
            raise Discard(f"{asked} is not below an allowed root (setting `checksum_roots`)")


def _hash(descriptor: int, algorithm: str) -> tuple[str, int]:
    state, size = hashlib.new(algorithm), 0
    while chunk := os.read(descriptor, _CHUNK):
        state.update(chunk)
        size += len(chunk)
    return state.hexdigest(), size
