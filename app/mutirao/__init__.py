"""Mutirão: a distributed task scheduler for a handful of edge machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mutirao.client import Client

__all__ = ["Client", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Imported when asked for: agents and runners, which never need it, start without an HTTP client.
    if name == "Client":
        from mutirao.client import Client  # noqa: PLC0415

        return Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
