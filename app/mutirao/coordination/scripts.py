"""Loads Lua scripts from their files and runs them, wherever the server has forgotten them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import redis
from redis.exceptions import NoScriptError


class Script:
    """One file of `lua/`; its header says what KEYS and ARGV hold and what comes back."""

    def __init__(self, name: str) -> None:
        self._text = files(__package__).joinpath("lua", name).read_text(encoding="utf-8")
        self._sha = hashlib.sha1(self._text.encode(), usedforsecurity=False).hexdigest()

    def __call__(self, client: redis.Redis, keys: Sequence[str], args: Sequence[str | int]) -> Any:
        """Runs it in one round trip, or in two where the server does not know it yet."""
        try:
            return client.evalsha(self._sha, len(keys), *keys, *args)
        except NoScriptError:
            # EVAL also loads it, and unlike SCRIPT LOAD + EVALSHA has no gap for a SCRIPT FLUSH.
            return client.eval(self._text, len(keys), *keys, *args)
