"""The door's contracts: newest wins, read rarely, and refusals name the field."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import msgspec
import pytest

from mutirao.domain.views import ContractView, RefusalView
from mutirao.errors import InvalidInput, Unavailable
from mutirao.services.contracts import ContractBook
from mutirao.services.requests import Refused

DEFAULTS = {
    "queue": "default",
    "priority": 5,
    "max_retries": 3,
    "timeout": 300.0,
    "backoff": {"base": 1.0, "cap": 300.0},
}


def contract(handler: str, schema: dict[str, Any], fingerprint: str = "f", **defaults: Any) -> ContractView:
    return ContractView(
        id=crc32(f"{handler} {fingerprint}".encode()),
        accepted=True,
        nodes=["node-1"],
        refusals=[],
        unserved_jobs=0,
        handler=handler,
        fingerprint=fingerprint,
        description="",
        payload_schema=schema,
        result_schema={},
        defaults={**DEFAULTS, **defaults},
    )


class Shelf:
    """Published contracts and a clock, both moved by the test."""

    def __init__(self, *contracts: ContractView) -> None:
        self.contracts = list(contracts)
        self.reads = 0
        self.now = 0.0
        self.book = ContractBook(self.read, clock=lambda: self.now)

    def read(self) -> list[ContractView]:
        self.reads += 1
        return self.contracts


def test_contracts_are_read_once_while_fresh() -> None:
    shelf = Shelf(contract("a", {}), contract("b", {}))
    for handler in ("a", "b", "a"):
        shelf.book.door(handler, "handler")
    assert shelf.reads == 1
    shelf.now = 2.1
    shelf.book.door("a", "handler")
    assert shelf.reads == 2


def test_a_handler_published_a_moment_ago_is_found() -> None:
    shelf = Shelf()
    with pytest.raises(InvalidInput):
        shelf.book.door("late", "handler")
    shelf.contracts.append(contract("late", {}))
    shelf.now = 0.3
    assert shelf.book.door("late", "handler").handler == "late"


def test_a_flood_of_unknown_names_does_not_reach_the_store() -> None:
    shelf = Shelf(contract("a", {}))
    for number in range(100):
        with pytest.raises(InvalidInput):
            shelf.book.door(f"x{number}", "handler")
    assert shelf.reads == 1


def test_what_comes_in_while_nobody_serves_it_waits_under_the_last_contract() -> None:
    shelf = Shelf(msgspec.structs.replace(contract("a", {}), nodes=[]))
    assert shelf.book.door("a", "handler").contract == shelf.contracts[0].id


def test_a_handler_that_was_only_ever_refused_is_unavailable_and_says_why() -> None:
    told = RefusalView(node="node-2", message="job 1: payload.size: is too large")
    refused = msgspec.structs.replace(contract("a", {}), accepted=False, nodes=[], refusals=[told])
    shelf = Shelf(refused, contract("b", {}))
    with pytest.raises(Unavailable) as error:
        shelf.book.door("a", "handler")
    assert (
        error.value.message == "no live node serves `a`: refused on node-2: job 1: payload.size: is too large"
    )
    assert "cancel that job" in error.value.hint
    shelf.contracts[0] = contract("a", {})
    shelf.now = 3.0
    assert shelf.book.door("a", "handler").contract == refused.id


def test_a_changed_contract_replaces_the_old_one() -> None:
    shelf = Shelf(contract("a", {"type": "string"}, "old", priority=1))
    shelf.book.door("a", "handler").check("text", "payload")
    shelf.contracts[:] = [contract("a", {"type": "integer"}, "new", priority=2)]
    shelf.now = 3.0
    door = shelf.book.door("a", "handler")
    door.check(1, "payload")
    assert (door.priority, door.contract) == (2, shelf.contracts[0].id)
    with pytest.raises(Refused):
        door.check("text", "payload")


def test_two_handlers_of_one_shape_are_two() -> None:
    shelf = Shelf(contract("a", {}, "same"), contract("b", {}, "same"))
    assert [shelf.book.door(name, "handler").handler for name in ("a", "b")] == ["a", "b"]


def test_refusals_name_each_field_and_no_schema_is_fetched() -> None:
    schema = {
        "type": "object",
        "properties": {"files": {"type": "array", "items": {"$ref": "#/$defs/File"}}},
        "required": ["files"],
        "additionalProperties": False,
        "$defs": {
            "File": {
                "type": "object",
                "properties": {"path": {"type": "string"}, "size": {"type": "integer"}},
                "required": ["path"],
                "additionalProperties": False,
            }
        },
    }
    door = Shelf(contract("a", schema)).book.door("a", "handler")
    with pytest.raises(Refused) as refusal:
        door.check({"files": [{"path": "x"}, {"size": "3", "colour": 1}], "more": 1}, "jobs.2.payload")
    assert {error.field for error in refusal.value.errors} == {
        "jobs.2.payload.more",
        "jobs.2.payload.files.1.path",
        "jobs.2.payload.files.1.size",
        "jobs.2.payload.files.1.colour",
    }


def test_a_long_value_is_not_repeated_at_length() -> None:
    door = Shelf(contract("a", {"type": "integer"})).book.door("a", "handler")
    with pytest.raises(Refused) as refusal:
        door.check("x" * 100_000, "payload")
    assert len(refusal.value.message) < 400


def test_a_number_beyond_double_precision_is_judged_exactly() -> None:
    door = Shelf(contract("a", {"type": "integer", "maximum": 9007199254740992})).book.door("a", "handler")
    door.check(9007199254740992, "payload")
    with pytest.raises(Refused):
        door.check(9007199254740993, "payload")
