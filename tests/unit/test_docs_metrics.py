"""docs/metrics.md names every metric there is, with its type and labels, and no other; its queries, too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import Counter, Gauge, Histogram

from mutirao import metrics

PAGE = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(mutirao_\w+)` \| (\w+) \|([^|]*)\|", re.MULTILINE)
# What a histogram is made of.
PARTS = ("", "_bucket", "_sum", "_count")
UNITS = re.compile(r"_(ms|milliseconds|minutes|kb|mb|percent)(_|$)")


def defined() -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels of every metric, under the name that a scrape shows."""
    found: dict[str, tuple[str, tuple[str, ...]]] = {}
    for one in vars(metrics).values():
        if isinstance(one, (Counter, Gauge, Histogram)):
            suffix = "_total" if isinstance(one, Counter) else ""
            found[one._name + suffix] = (one._type, tuple(one._labelnames))
    found |= {one.name: ("gauge", tuple(one.labels)) for one in metrics.READINGS}
    return found


def documented() -> dict[str, tuple[str, tuple[str, ...]]]:
    return {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in ROW.findall(PAGE)}


def test_every_metric_is_documented_as_it_is_and_exists() -> None:
    assert documented() == defined()
    assert len(ROW.findall(PAGE)) == len(defined())


def test_what_is_scraped_is_what_is_defined() -> None:
    scraped = {family.name for registry in (metrics.AGENT, metrics.WEB) for family in registry.collect()}
    ours = {name for name in scraped if name.startswith("mutirao_")}
    readings = {one.name for one in metrics.READINGS}
    assert ours == {name.removesuffix("_total") for name in defined()} - readings


def test_every_reading_is_listed() -> None:
    listed = {id(one) for one in metrics.READINGS}
    assert {
        name
        for name, one in vars(metrics).items()
        if isinstance(one, metrics.Reading) and id(one) not in listed
    } == set()


def test_every_name_in_a_query_exists() -> None:
    names = {
        name + part
        for name, (kind, _) in defined().items()
        for part in (PARTS if kind == "histogram" else ("",))
    }
    assert set(re.findall(r"mutirao_\w+", PAGE)) <= names


@pytest.mark.parametrize("name", defined())
def test_names_follow_the_conventions(name: str) -> None:
    kind, labels = defined()[name]
    assert name.endswith("_total") == (kind == "counter")
    assert not UNITS.search(name)
    assert not set(labels) & {"id", "job", "queue", "node", "instance", "path", "le"}


def test_handlers_beyond_a_hundred_share_a_label(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "_handlers", set())
    for number in range(3 * metrics.HANDLERS):
        metrics.attempt_ended(f"handler-{number}", "succeeded", 0.1)
    samples = [one for family in metrics.AGENT.collect() for one in family.samples]
    seen = {
        one.labels["handler"]: one.value
        for one in samples
        if one.name == "mutirao_attempts_ended_total"
        and one.labels["handler"].startswith(("handler-", "other"))
    }
    assert len(seen) == metrics.HANDLERS + 1
    assert seen[metrics.OTHER] == 2 * metrics.HANDLERS
