"""What a handler is given: checked at once, and usable in its own tests without an agent."""

from __future__ import annotations

import math
from typing import Any
from uuid import UUID

import pytest

from mutirao.context import Context


class Told:
    """A link that remembers."""

    def __init__(self) -> None:
        self.progress_told: list[tuple[float, str]] = []
        self.keys: list[str] = []

    def cancelled(self) -> bool:
        return True

    def progress(self, fraction: float, note: str) -> None:
        self.progress_told.append((fraction, note))

    def once(self, key: str) -> bool:
        self.keys.append(key)
        return False


def context(link: Told | None = None) -> Context:
    return Context(UUID(int=7), 3, math.inf, link) if link else Context(UUID(int=7), 3)


def test_without_an_agent_a_context_works_for_a_handlers_own_tests() -> None:
    alone = context()
    assert not alone.cancelled
    alone.progress(0.5, "half")
    assert [alone.once("paid"), alone.once("paid"), alone.once("told")] == [True, False, True]
    assert context().once("paid"), "another context is another job's"
    assert alone.remaining() == math.inf
    assert alone.log.name == "mutirao.job"


@pytest.mark.parametrize(
    ("fraction", "note"), [(0, ""), (1, "é😀"), (0.0, "x" * 500), (1.0, "a\nb"), (5e-324, "")]
)
def test_progress_from_0_to_1_is_passed_on(fraction: float, note: str) -> None:
    link = Told()
    context(link).progress(fraction, note)
    assert link.progress_told == [(fraction, note)]


@pytest.mark.parametrize("fraction", [-0.001, 1.0001, math.nan, math.inf, -math.inf])
def test_what_is_no_fraction_is_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        context().progress(fraction)


@pytest.mark.parametrize("note", ["x" * 501, "a\0b", "\ud800"])
def test_a_note_that_cannot_be_kept_is_refused(note: str) -> None:
    with pytest.raises(ValueError, match="note"):
        context().progress(0.5, note)


@pytest.mark.parametrize("key", ["", "x" * 201, "a\0b", "\udfff"])
def test_a_key_that_cannot_be_kept_is_refused(key: str) -> None:
    link = Told()
    with pytest.raises(ValueError, match="key"):
        context(link).once(key)
    assert link.keys == []


@pytest.mark.parametrize("other", [None, 5, b"a", ["a"]])
def test_what_is_no_text_is_refused_by_its_type(other: Any) -> None:
    link = Told()
    with pytest.raises(TypeError, match="note"):
        context(link).progress(0.5, other)
    with pytest.raises(TypeError, match="key"):
        context(link).once(other)
    assert link.keys == link.progress_told == []


def test_keys_of_1_and_200_characters_are_asked_for() -> None:
    link = Told()
    assert not context(link).once("x")
    assert not context(link).once("😀" * 200)
    assert context(link).cancelled
