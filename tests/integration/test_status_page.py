"""The status page: true figures, two languages, plain text for whatever was stored, and no store needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any
from uuid import uuid4

import pytest

from mutirao.domain.job import Outcome
from tests.support.door import Door, open_door

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>javascript:alert(3)'


@pytest.fixture(scope="module")
def door(
    database_server: Any, migrated_template: str, redis_server: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Door]:
    dsn = database_server.create(migrated_template)
    with open_door(tmp_path_factory.mktemp("page"), dsn, redis_server.url) as opened:
        yield opened
    database_server.drop(dsn)


class Outline(HTMLParser):
    """What a screen reader or a link checker would find."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._within: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        self.tags.append((tag, attributes))
        self._within = attributes.get("id")

    def handle_data(self, data: str) -> None:
        if self._within:
            self.texts.setdefault(self._within, data.strip())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def page(door: Door, query: str = "", **headers: str) -> str:
    response = door.http.get(f"/{query}", headers=headers)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    return response.text


def test_the_figures_are_the_clusters(door: Door) -> None:
    good, bad = door.submit(max_retries=0), door.submit(max_retries=0)
    door.node.end(good, door.node.start(good), Outcome.SUCCEEDED, result="1")
    door.node.kill_off(bad)
    for _ in range(3):
        door.submit()
    door.node.keep_house()
    door.node.roll_up({("echo", Outcome.SUCCEEDED): (3, 1.5), ("echo", Outcome.FAILED): (1, 0.5)})
    text = page(door)
    found = Outline(text).texts
    assert found["leader"] == "node-1"
    assert found["term"] == "1"
    assert found["queue-length"] == "3"
    assert found["success-rate"] == "75.0%"
    assert found["mean-duration"] == "0.500 s"
    assert found["dead-letters"] == "1"
    assert good in text
    assert bad in text
    assert re.search(r"\d+\.\d s\s+ago", text)


def test_every_stored_text_is_plain_text(door: Door) -> None:
    with door.node.database.transaction() as tx:
        tx.execute(
            "INSERT INTO nodes (id, name, incarnation, status, slots, version, url) "
            "VALUES (%(id)s, %(text)s, 1, 'live', 1, %(text)s, %(text)s)",
            {"id": uuid4(), "text": HOSTILE},
        )
        tx.execute("UPDATE jobs SET handler = %(text)s, queue = %(text)s", {"text": HOSTILE})
    text = page(door)
    assert "&lt;script&gt;" in text
    outline = Outline(text)
    assert not outline.all("script")
    assert not outline.all("img")
    assert not [name for _, attributes in outline.tags for name in attributes if name.startswith("on")]
    assert not [a for a in outline.all("a") if "javascript" in (a["href"] or "")]
    with door.node.database.transaction() as tx:
        tx.execute("DELETE FROM nodes WHERE name = %(text)s", {"text": HOSTILE})
        tx.execute("UPDATE jobs SET handler = 'echo', queue = 'default'")


@pytest.mark.parametrize(
    ("query", "accepted", "language"),
    [
        ("", "en", "en"),
        ("", "pt-BR,pt;q=0.9,en;q=0.8", "pt-BR"),
        ("", "pt", "pt-BR"),
        ("", "de", "en"),
        ("", "xx;q=broken", "en"),
        ("?lang=pt-BR", "en", "pt-BR"),
        ("?lang=en", "pt-BR", "en"),
        ("?lang=../../etc", "en", "en"),
    ],
)
def test_the_reader_chooses_the_language(door: Door, query: str, accepted: str, language: str) -> None:
    text = page(door, query, **{"Accept-Language": accepted})
    assert f'<html lang="{language}">' in text
    assert ("Tamanho da fila" in text) == (language == "pt-BR")
    assert ("Queue length" in text) == (language == "en")


def test_the_page_is_accessible_and_needs_nothing_from_elsewhere(door: Door) -> None:
    outline = Outline(page(door))
    assert [level for level, _ in outline.tags if re.fullmatch("h[1-6]", level)] == ["h1", "h2", "h2", "h2"]
    assert all("scope" in heading for heading in outline.all("th"))
    assert outline.all("main")[0]["id"] == "content"
    assert outline.all("a")[0]["href"] == "#content"
    links = [a["href"] for a in outline.all("link")]
    assert len(links) == 2
    for link in links:
        assert link is not None
        assert link.startswith("/static/")
        assert door.http.get(link).status_code == 200
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_light_and_dark_define_the_same_colours(door: Door) -> None:
    sheet = door.http.get("/static/style.css").text
    light, dark = sheet.split("@media (prefers-color-scheme: dark)", 1)
    names = re.compile(r"(--[\w-]+):")
    assert set(names.findall(light)) == set(names.findall(dark))
    assert set(re.findall(r"var\((--[\w-]+)\)", sheet)) <= set(names.findall(light))


def luminance(colour: str) -> float:
    channels = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read(door: Door, scheme: int) -> None:
    """WCAG AA: at least 4.5 to 1 between each text colour and what it stands on."""
    sheet = door.http.get("/static/style.css").text
    part = sheet.split("@media (prefers-color-scheme: dark)")[scheme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
    pairs = [(text, ground) for text in ("text", "quiet", "accent") for ground in ("ground", "panel")]
    pairs += [(name, f"{name}-ground") for name in ("good", "busy", "bad", "calm", "warm")]
    for text, ground in pairs:
        light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_refreshing_is_the_readers_choice(door: Door) -> None:
    assert "http-equiv" not in page(door)
    refreshing = page(door, "?refresh=5&lang=pt-BR")
    assert '<meta http-equiv="refresh" content="5">' in refreshing
    assert "Parar de atualizar" in refreshing


def test_the_headers_forbid_scripts_and_frames(door: Door) -> None:
    headers = door.http.get("/").headers
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
