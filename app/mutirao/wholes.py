"""Whole numbers that are not written as such (5.0, 1e2), put as integers where integers are wanted."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

_MOST_DIGITS = 4000  # the door lets no more through

Place = Sequence[int | str]


def with_integers(raw: bytes, places: Sequence[Place]) -> bytes:
    """The JSON text with the whole numbers at these places as integers, to the digit; all else as it is."""
    return _mended(raw, places) if places else raw


def _mended(raw: bytes, places: Sequence[Place]) -> bytes:
    text = raw.strip()
    if text[:1] not in {b"{", b"["}:
        return _integer(text)
    kind: Any = dict[str, msgspec.Raw] if text[:1] == b"{" else list[msgspec.Raw]
    opened: Any = msgspec.json.decode(text, type=kind)
    for step, deeper in _by_step(opened, places).items():
        opened[step] = msgspec.Raw(_mended(bytes(opened[step]), deeper))
    return msgspec.json.encode(opened)


def _by_step(opened: Any, places: Sequence[Place]) -> dict[int | str, list[Place]]:
    known = opened if isinstance(opened, dict) else range(len(opened))
    found: dict[int | str, list[Place]] = {}
    for place in places:
        # A place also names the members of unions that were tried, which are no steps.
        for depth, step in enumerate(place):
            if step in known:
                found.setdefault(step, []).append(place[depth + 1 :])
                break
    return found


def _integer(text: bytes) -> bytes:
    try:
        number = Decimal(text.decode())
    except InvalidOperation:
        return text
    if number.adjusted() > _MOST_DIGITS or number != number.to_integral_value():
        return text
    return str(int(number)).encode()
