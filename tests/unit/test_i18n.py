"""Every message a page shows exists in both languages."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from mutirao.domain.job import State
from mutirao.web import i18n

TEMPLATES = [
    entry
    for entry in resources.files("mutirao.web").joinpath("templates").iterdir()
    if entry.name.endswith(".html")
]
CALL = re.compile(r"""\b_\(\s*(["'])(.+?)\1\s*\)""")


def shown() -> set[str]:
    """The literal messages of all templates."""
    return {match[1] for entry in TEMPLATES for match in CALL.findall(entry.read_text(encoding="utf-8"))}


def test_templates_have_messages() -> None:
    assert len(shown()) > 20


def test_every_message_is_translated() -> None:
    computed = {*State, "cancelling", "coordinator", "worker", "live", "draining", "lost", "stopped"}
    assert shown() | {str(word) for word in computed} <= set(i18n.PORTUGUESE)


def test_no_translation_is_left_over() -> None:
    computed = {*State, "cancelling", "coordinator", "worker", "live", "draining", "lost", "stopped"}
    assert set(i18n.PORTUGUESE) == shown() | {str(word) for word in computed}


@pytest.mark.parametrize(
    ("value", "digits", "lang", "text"),
    [
        (1234567.891, 2, "en", "1,234,567.89"),
        (1234567.891, 2, "pt-BR", "1.234.567,89"),
        (0, 0, "en", "0"),
        (None, 1, "en", "–"),
    ],
)
def test_numbers_are_written_as_people_do(value: float | None, digits: int, lang: str, text: str) -> None:
    assert i18n.number(value, digits, lang) == text
