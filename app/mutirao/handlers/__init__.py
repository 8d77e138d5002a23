"""The handlers every node has, and those it has once the operator says what they may reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mutirao.contract import AnyHandler
from mutirao.handlers.checksum import Checksum
from mutirao.handlers.echo import echo
from mutirao.handlers.fail import fail
from mutirao.handlers.sleep import sleep

__all__ = ["built_in"]


def built_in(
    checksum_roots: Sequence[str] = (), commands: Sequence[str] = (), http_hosts: Sequence[str] = ()
) -> dict[str, Callable[[], AnyHandler]]:
    """How to make the built-in handlers, by name; `checksum` reads only below the given roots."""
    made: dict[str, Callable[[], AnyHandler]] = {
        "checksum": lambda: Checksum(checksum_roots),
        "echo": lambda: echo,
        "sleep": lambda: sleep,
        "fail": lambda: fail,
    }
    if commands:
        made["command"] = lambda: _command(commands)
    if http_hosts:
        made["http"] = lambda: _http(http_hosts)
    return made


# Imported when allowed: a runner without them is the lighter for it.
def _command(programs: Sequence[str]) -> AnyHandler:
    from mutirao.handlers.command import Command  # noqa: PLC0415

    return Command(programs)


def _http(hosts: Sequence[str]) -> AnyHandler:
    from mutirao.handlers.http import Http  # noqa: PLC0415

    return Http(hosts)
