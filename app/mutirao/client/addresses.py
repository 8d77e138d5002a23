"""The web servers of a cluster: which one to ask first, and whom to ask next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import httpx

from mutirao.errors import InvalidInput
from mutirao.settings import environment

DEFAULT_URL = "http://127.0.0.1:8080"


class Addresses:
    """The addresses in order, the one that answered last first; any thread may use it."""

    def __init__(self, urls: str | Sequence[str] | None = None) -> None:
        self._urls = tuple(dict.fromkeys(_checked(url) for url in _named(urls)))
        if not self._urls:
            raise InvalidInput("url", "no address is given", hint="name a node with --url or MUTIRAO_URL")
        self._first = 0
        self.met = False

    def __len__(self) -> int:
        return len(self._urls)

    def __iter__(self) -> Iterator[str]:
        """Each address once."""
        first = self._first
        yield from self._urls[first:] + self._urls[:first]

    def answered(self, url: str) -> None:
        """Remembers that this one is alive, and that somebody has been met at all."""
        self.met = True
        self._first = self._urls.index(url)


def _named(urls: str | Sequence[str] | None) -> list[str]:
    given = urls or environment("URL") or DEFAULT_URL
    texts = [given] if isinstance(given, str) else given
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise InvalidInput("url", f"{url} is not a URL: {error}") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise InvalidInput("url", f"{url} is not the address of a web server", hint="begin it with http://")
    return url.rstrip("/")
