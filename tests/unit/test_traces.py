"""What decides I2 in the acceptance tests is judged first."""

from __future__ import annotations

import json
from pathlib import Path
from uuid import uuid4

import pytest

from tests.support.traces import overlaps

START = {"event": "start", "pids": [7], "survivors": []}
LEGAL = [
    {**START, "attempt": 1, "at": 1.0},
    {"event": "end", "attempt": 1, "at": 2.0},
    {**START, "attempt": 2, "at": 2.5},  # killed: no end, and nobody left of it
    {**START, "attempt": 3, "at": 4.0},
    {"event": "end", "attempt": 3, "at": 5.0},
]


def write(directory: Path, lines: list[dict[str, object]]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (directory / f"{uuid4()}.jsonl").write_text(text)


def test_one_after_the_other_is_right(tmp_path: Path) -> None:
    write(tmp_path, LEGAL)
    assert overlaps(tmp_path) == []


@pytest.mark.parametrize(
    ("seeded", "said"),
    [
        ({**START, "attempt": 2, "at": 1.5}, "ended 0.500 s after 2 began"),
        ({**START, "attempt": 4, "at": 6.0, "survivors": [7]}, "found processes of earlier ones: (7,)"),
        ({**START, "attempt": 3, "at": 6.0}, "attempt 3 began after attempt 3"),
    ],
)
def test_two_at_once_are_found(tmp_path: Path, seeded: dict[str, object], said: str) -> None:
    write(tmp_path, [*LEGAL[:2], seeded] if seeded["attempt"] == 2 else [*LEGAL, seeded])
    assert [said in text for text in overlaps(tmp_path)] == [True]
