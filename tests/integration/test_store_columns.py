"""Lists reach PostgreSQL as they are, whatever they hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tries
from hypothesis import strategies as st

from mutirao.domain.job import State
from mutirao.store.database import Database

TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"))


@pytest.fixture(scope="module")
def one(database_server: Any, migrated_template: str) -> Iterator[Database]:
    dsn = database_server.create(migrated_template)
    database = Database(dsn, application_name="one", size=1)
    yield database
    database.close()
    database_server.drop(dsn)


def back(database: Database, column: list[Any], kind: str) -> list[Any]:
    with database.transaction() as tx:
        found: list[Any] = tx.one(f"SELECT %(column)s::{kind}[] AS column", {"column": column}).column
    return found


@tries(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | TEXTS))
def test_texts(one: Database, column: list[str | None]) -> None:
    assert back(one, column, "text") == column


@pytest.mark.parametrize(
    "text", ["", "NULL", "null", "{}", '"', "\\", '\\"', "a,b", " ", "\n\t", "{a,{b}}", "'", "ß→🙂", "%s"]
)
def test_texts_that_mean_something_to_arrays(one: Database, text: str) -> None:
    assert back(one, [text, None, text], "text") == [text, None, text]


@tries(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.uuids()), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_ids_and_numbers(one: Database, ids: list[UUID | None], numbers: list[int | None]) -> None:
    assert back(one, ids, "uuid") == ids
    assert back(one, numbers, "bigint") == numbers


@tries(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | st.floats(allow_nan=False)))
def test_floats(one: Database, column: list[float | None]) -> None:
    assert back(one, column, "float8") == column
    assert math.isnan(back(one, [math.nan], "float8")[0])


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([b"\x00\xff", b""], "bytea"),
        ([True, None, False], "boolean"),
        ([datetime(2026, 1, 2, tzinfo=UTC)], "timestamptz"),
        ([[1, 2], [3, 4]], "int"),
        ([1, 2.5], "float8"),
        ([State.DEAD, State.QUEUED], "text"),
        ([None, None], "uuid"),
        ([], "bytea"),
    ],
)
def test_other_lists_are_written_as_the_driver_does(one: Database, column: list[Any], kind: str) -> None:
    assert back(one, column, kind) == column
