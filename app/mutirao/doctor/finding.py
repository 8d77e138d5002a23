"""What one check found: fine, doubtful or broken, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from mutirao.errors import MutiraoError
from mutirao.settings import Settings

_AGAIN = "mend that and examine again"


class Level(StrEnum):
    """FAIL means that this node cannot do its work, or not safely; WARN that it may come to that."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `check` is stable, for scripts."""

    check: str
    level: Level
    message: str
    hint: str = ""


Theme = Callable[[Settings], Iterator[Finding]]


def ok(check: str, message: str) -> Finding:
    """Nothing to do."""
    return Finding(check, Level.OK, message)


def warn(check: str, message: str, hint: str) -> Finding:
    """Worth a look."""
    return Finding(check, Level.WARN, message, hint)


def fail(check: str, message: str, hint: str) -> Finding:
    """To be mended."""
    return Finding(check, Level.FAIL, message, hint)


def guarded(name: str, theme: Callable[[], Iterator[Finding]]) -> Iterator[Finding]:
    """What `theme` finds; where it breaks off, that is a finding, too."""
    try:
        yield from theme()
    except (MutiraoError, OSError) as error:
        yield fail(name, f"could not be looked at any further: {error}", getattr(error, "hint", "") or _AGAIN)
    except Exception as error:  # noqa: BLE001 - whatever is broken here, the other themes are looked at
        yield fail(name, f"the examination broke off: {type(error).__name__}: {error}", "report this")
