"""The handlers every node has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mutirao.contract import Handler
from mutirao.handlers.checksum import Checksum
from mutirao.handlers.echo import echo
from mutirao.handlers.fail import fail
from mutirao.handlers.sleep import sleep

__all__ = ["built_in"]


def built_in(checksum_roots: Sequence[str]) -> list[Handler[Any, Any]]:
    """The built-in handlers; `checksum` reads only below the given roots."""
    return [Checksum(checksum_roots), echo, sleep, fail]
