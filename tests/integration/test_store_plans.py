"""Hot statements walk indexes, counted or not: a queue fills faster than anybody can count it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from psycopg import sql as compose

from mutirao.store import sql
from mutirao.store.database import Database, Transaction
from tests.support.crowd import gather

BIG = re.compile(r"^(jobs|finished_jobs|audit|attempts|submissions|once_keys)(_\d+|_default)?$")
# What reads its partial index from the start: the next one due, everybody's load.
FROM_THE_START = {"assignment.next_due", "assignment.rooms"}
NODE = UUID(int=1)
ME = {"node": NODE, "incarnation": 1}
IDS = [uuid4() for _ in range(50)]
WAITING = {
    "id": NODE,
    "handlers": ["echo"],
    "stretch": 20_000,
    "limit": 100,
    "bytes": 1_000_000,
}
ENDS = {"ids": IDS, "attempts": [1] * 50, "outcomes": ["succeeded"] * 50}
WISHES = {"ids": IDS, "keys": ["paid"] * 50, "tokens": IDS}
PAGE = {
    **{"below": NODE, "oldest": NODE, "before": "infinity", "limit": 51, "job_id": NODE},
    **dict.fromkeys(("states", "handler", "queue", "created_after", "created_before"), "{}"),
    **dict.fromkeys(("error_type", "event", "actor", "node"), "a"),
}

HOT: Mapping[str, Mapping[str, object]] = {
    "assignment.rooms": {},
    "assignment.candidates": {"contracts": [1, 2], "rooms": [100, 5000], "limit": 2000},
    "assignment.assign": {
        "jobs": IDS,
        "nodes": [NODE] * 50,
        "incarnations": [1] * 50,
        "contracts": [1] * 50,
        "term": 1,
    },
    "assignment.promote_due": {"limit": 1000, "term": 1},
    "assignment.next_due": {},
    "assignment.take_back": {"nodes": [NODE], "incarnation": 1, "limit": 100, "actor": "a", "term": 1},
    "assignment.give_back_superseded": {"node": NODE, "actor": "a", "term": 1},
    "term.note_unserved": {},
    "contracts.queued_stretch": {**WAITING, "place": "1.5", "contract": 1},
    "contracts.scheduled_stretch": {
        **WAITING,
        "place": "2026-11-30 22:00:00+00",
        "contracts": [1],
        "among": True,
    },
    "contracts.adopt": {**ME, "ids": IDS, "formers": [0] * 50, "contracts": [1] * 50},
    "execution.claim": {**ME, "token": NODE, "limit": 100},
    "execution.claimed_under": {**ME, "token": NODE},
    "execution.acknowledge": {
        **ME,
        **ENDS,
        "results": ["{}"] * 50,
        "errors": [None] * 50,
        "seconds": [1.0] * 50,
        "delays": [1.0] * 50,
        "outputs": ["said"] * 50,
        "dropped": [0] * 50,
    },
    "execution.note_progress": {
        **ME,
        "ids": IDS,
        "attempts": [1] * 50,
        "fractions": [0.5] * 50,
        "notes": [""] * 50,
    },
    "execution.applied_already": {**ME, **ENDS},
    "execution.running_here": ME,
    "execution.assigned_here": ME,
    "execution.cancel_requests": ME,
    "execution.hand_back": {**ME, "ids": IDS, "attempts": [1] * 50, "tokens": IDS},
    "once.hold_running": {**ME, "ids": IDS, "attempts": [1] * 50},
    "once.take_keys": {**ME, **WISHES, "attempts": [1] * 50},
    "once.whose_keys": WISHES,
    "jobs.states": {"ids": IDS},
    "jobs.known_keys": {"keys": ["a", "b"]},
    "jobs.hold_jobs": {"ids": IDS},
    "jobs.cancel_unstarted": {"ids": IDS, "actor": "a"},
    "jobs.request_cancel": {"ids": IDS, "actor": "a"},
    "jobs.replay": {"ids": IDS, "actor": "a", "attempt": None},
    "jobs.discard": {"ids": IDS, "actor": "a", "attempt": None},
    "jobs.forget_keys": {"kept": 1.0, "limit": 1000},
    "insights.audit": {"id": NODE},
    "insights.attempts": {"id": NODE, "most": 1 << 22, "least": 1000},
    "insights.job": {"id": NODE},
    "lists.live_jobs": PAGE,
    "lists.live_jobs_floor": PAGE,
    "lists.finished_jobs": PAGE,
    "lists.finished_jobs_floor": PAGE,
    "lists.summaries": {"ids": IDS},
    "lists.dead_letters": PAGE,
    "lists.dead_letters_floor": PAGE,
    "lists.audit": {**PAGE, "below": 5},
    "lists.audit_floor": {"below": 5},
    "lists.audit_of_job": {**PAGE, "below": 5},
}
TYPES: Mapping[type, str] = {
    UUID: "uuid",
    int: "bigint",
    bool: "boolean",
    float: "float8",
    str: "text",
    type(None): "bigint",
}


@pytest.fixture(scope="module", params=[True, False], ids=["counted", "uncounted"])
def database(
    request: pytest.FixtureRequest, database_server: Any, migrated_template: str
) -> Iterator[Database]:
    dsn = database_server.create(migrated_template)
    gather(dsn, counted=request.param)
    database = Database(dsn, application_name="plans", steady_plans=True)
    yield database
    database.close()
    database_server.drop(dsn)


def generic_plan(tx: Transaction, statement: str, params: Mapping[str, object]) -> dict[str, Any]:
    """The one plan that the statement keeps once it is prepared, for whatever values."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", statement)))
    numbered = re.sub(r"%\((\w+)\)s", lambda match: f"${names.index(match[1]) + 1}", statement)
    types = ", ".join(_type(params[name]) for name in names)
    tx.send(f"PREPARE hot{f' ({types})' if types else ''} AS {numbered}")
    values = compose.SQL(", ").join(compose.Literal(params[name]) for name in names)
    given = compose.SQL("({})").format(values) if names else compose.SQL("")
    row = tx.one((compose.SQL("EXPLAIN (FORMAT JSON) EXECUTE hot") + given).as_string())
    tx.send("DEALLOCATE hot")
    plan: dict[str, Any] = row[0][0]["Plan"]
    return plan


def _type(value: object) -> str:
    if isinstance(value, list):
        known = [item for item in value if item is not None]
        return f"{_type(known[0]) if known else 'text'}[]"
    return TYPES[type(value)]


def nodes(plan: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)


def scans(plan: Mapping[str, Any], leading: Mapping[str, str]) -> Sequence[str]:
    """What reads a big table or an index from end to end: without a condition on its first column."""
    found = []
    for node in nodes(plan):
        kind, table, index = node["Node Type"], node.get("Relation Name", ""), node.get("Index Name", "")
        if not BIG.match(table) or kind == "ModifyTable":
            continue
        if not re.search(rf"\b{leading.get(index, '-')}\b", node.get("Index Cond", "")):
            found.append(f"{kind} on {table} {index} {node.get('Index Cond', '')}")
    return found


@pytest.fixture
def leading(database: Database) -> Mapping[str, str]:
    """The first column of each index."""
    columns = """SELECT indexrelid::regclass::text AS index, pg_get_indexdef(indexrelid, 1, false) AS first
        FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
        WHERE relnamespace = 'mutirao'::regnamespace"""
    with database.transaction() as tx:
        return dict(tx.rows(columns))


@pytest.mark.parametrize("name", HOT)
def test_no_hot_statement_scans_a_big_table(
    database: Database, leading: Mapping[str, str], name: str
) -> None:
    plan = plan_of(database, name)
    if name not in FROM_THE_START:
        assert scans(plan, leading) == []
        return
    indexes = {node.get("Index Name") for node in nodes(plan) if BIG.match(node.get("Relation Name", ""))}
    assert indexes < {"jobs_scheduled", "jobs_given"} and len(indexes) == 1


def plan_of(database: Database, name: str) -> dict[str, Any]:
    file, block = name.split(".")
    with database.transaction() as tx:
        return generic_plan(tx, getattr(sql.load(f"{file}.sql"), block), HOT[name])


def test_a_scan_would_be_seen(database: Database, leading: Mapping[str, str]) -> None:
    with database.transaction() as tx:
        for where in ("submitted_by = %(who)s", "handler = %(who)s ORDER BY id"):
            assert scans(generic_plan(tx, f"SELECT id FROM jobs WHERE {where}", {"who": "me"}), leading)


def test_the_next_due_is_the_first_of_its_index(database: Database) -> None:
    assert "Limit" in [node["Node Type"] for node in nodes(plan_of(database, "assignment.next_due"))]


def test_the_heads_of_the_queue_are_read_in_order_without_sorting(database: Database) -> None:
    plan = plan_of(database, "assignment.candidates")
    (lane,) = [node for node in nodes(plan) if node["Node Type"] == "Limit"]
    assert [node.get("Index Name") for node in nodes(lane)] == [None, "jobs_queued"]


def test_many_ends_are_looked_up_not_compared_each_with_each(database: Database) -> None:
    """A join of two lists without an index grows with the square of the batch."""
    for node in nodes(plan_of(database, "execution.acknowledge")):
        if node["Node Type"] == "Nested Loop":
            inner = node["Plans"][1]
            cheap = any("Index Cond" in below or below.get("CTE Name") == "clock" for below in nodes(inner))
            assert cheap, inner
