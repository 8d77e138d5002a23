"""The end of an output: bounded, counted, and text that PostgreSQL takes."""

from __future__ import annotations

import pytest

from mutirao.tail import KEPT, Output, Tail


def tail(*parts: bytes) -> Output | None:
    made = Tail()
    for part in parts:
        made.add(part)
    return made.take()


def test_nothing_is_no_output_and_a_taken_tail_starts_anew() -> None:
    made = Tail()
    assert made.take() is None
    made.add(b"x")
    assert made.take() == Output(b"x", 0)
    assert made.take() is None


@pytest.mark.parametrize("chunk", [1000, KEPT - 1, KEPT, KEPT + 1, 5 * KEPT])
@pytest.mark.parametrize("size", [KEPT - 1, KEPT, KEPT + 1, 10 * KEPT + 3])
def test_the_last_bytes_are_kept_and_the_others_counted(size: int, chunk: int) -> None:
    data = bytes(number * 7 % 251 for number in range(size))
    output = tail(*[data[at : at + chunk] for at in range(0, size, chunk)])
    assert output == Output(data[-KEPT:], max(0, size - KEPT))


def test_a_tail_never_holds_much_more_than_it_keeps() -> None:
    made = Tail()
    for _ in range(500):
        made.add(b"x" * 3000)
        assert len(made._kept) <= 2 * KEPT + 3000


def test_text_shows_what_is_none_by_replacement_characters() -> None:
    assert Output(b"a\0b\xff\xc3\xa9", 0).text() == "a\ufffdb\ufffd\u00e9"


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_character_cut_at_the_start_is_left_out_only_where_there_was_a_cut(cut: int) -> None:
    kept = "😀 end".encode()[cut:]
    assert Output(kept, 100).text() == " end"
    assert Output(kept, 0).text() == "\ufffd" * (4 - cut) + " end"


@pytest.mark.parametrize("byte", [b"\xff", b"\0", b"\x80", b"x"])
def test_text_is_never_longer_than_what_is_kept_and_the_rest_is_counted(byte: bytes) -> None:
    output = Output(byte * KEPT, 9)
    fitted = output.fitted()
    assert fitted.text() == output.text()
    assert 0 < len(fitted.text().encode()) <= KEPT
    assert len(fitted.kept) + fitted.dropped == KEPT + 9
