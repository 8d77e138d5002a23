"""Places of web workers: the lowest that is free, with files that a full disk cannot take away."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from mutirao.web.shared_metrics import ROOM, Places


def worker(place: str = "") -> SimpleNamespace:
    return SimpleNamespace(place=place)


def test_a_worker_takes_the_lowest_free_place(tmp_path: Path) -> None:
    places, living = Places(tmp_path), {pid: worker(place) for pid, place in enumerate("0135")}
    for expected in ("2", "4", "6"):
        coming = worker()
        places.pre_fork(SimpleNamespace(WORKERS=living), coming)
        assert coming.place == expected
        living[100 + len(living)] = coming
    del living[0]
    coming = worker()
    places.pre_fork(SimpleNamespace(WORKERS=living), coming)
    assert coming.place == "0"


def test_a_place_has_its_room_on_the_disk_before_anybody_writes(tmp_path: Path) -> None:
    (tmp_path / "counter_master.db").touch()
    (tmp_path / "counter_0.db").write_bytes(b"counted before")
    Places(tmp_path).pre_fork(SimpleNamespace(WORKERS={}), worker())
    found = (tmp_path / "counter_0.db").stat()
    assert found.st_size == ROOM
    assert found.st_blocks * 512 >= ROOM
    assert (tmp_path / "counter_0.db").read_bytes().startswith(b"counted before\0")


def test_without_room_the_worker_starts_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "counter_master.db").touch()
    (tmp_path / "counter_0.db").mkdir()
    coming = worker()
    Places(tmp_path).pre_fork(SimpleNamespace(WORKERS={}), coming)
    assert coming.place == "0"


def test_sharing_after_metrics_are_defined_is_a_mistake_that_is_seen(tmp_path: Path) -> None:
    import mutirao.metrics  # noqa: F401

    with pytest.raises(RuntimeError, match="before it is said where"):
        Places(tmp_path).share()
