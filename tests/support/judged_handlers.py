"""Handlers whose validation does what validators may do."""

from __future__ import annotations

import os
import re

from pydantic import field_validator

from mutirao.contract import Payload, handler


class Picky(Payload):
    """Takes few words."""

    word: str

    @field_validator("word")
    @classmethod
    def judge(cls, word: str) -> str:
        """Raises what such code may raise, or does not come back."""
        if word == "nul":
            raise ValueError("a\0b" * 1000)
        if word == "crash":
            raise RuntimeError("a\0b\ud800c")
        if word == "exit":
            os._exit(3)
        if word == "endless":  # holds the interpreter lock
            re.fullmatch("(a+)+", "a" * 64 + "b")
        return word


@handler("picky")
def picky(payload: Picky) -> None:
    """Takes few words."""


@handler("easy")
def easy(payload: dict[str, str]) -> None:
    """Takes any."""


@handler("count")
def count(payload: int) -> int:
    """Takes numbers."""
    return payload
