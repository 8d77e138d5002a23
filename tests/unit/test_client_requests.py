"""What the client sends: exact, keyed, in batches that a web server takes; and whom it asks."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mutirao.client.addresses import Addresses
from mutirao.client.requests import MAX_BATCH_BYTES, InvalidValue, Request, batches, request
from mutirao.domain.job import Backoff
from mutirao.services.requests import JobRequest, validate


def test_a_request_says_what_is_given_and_nothing_else() -> None:
    said = json.loads(Request(handler="echo").text())
    assert said.keys() == {"handler", "payload", "idempotency_key"}
    full = Request(
        handler="echo",
        payload=[None],
        queue="q",
        priority=0,
        max_retries=0,
        backoff=Backoff(0.0, 7.0),
        timeout=0.5,
        run_at=datetime(2030, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
        idempotency_key="k",
    )
    taken = validate(JobRequest, json.loads(full.text()))
    assert (taken.priority, taken.max_retries, taken.idempotency_key) == (0, 0, "k")
    assert taken.run_at == datetime(2030, 1, 1, tzinfo=UTC)
    assert taken.backoff is not None and (taken.backoff.base, taken.backoff.cap) == (0.0, 7.0)


def test_each_request_has_a_key_before_anything_is_sent() -> None:
    asked = Request(handler="echo")
    keys = {json.loads(asked.text())["idempotency_key"] for _ in range(2)}
    assert len(keys) == 2
    assert json.loads(asked.text("mine-1"))["idempotency_key"] == "mine-1"


def test_a_payload_that_is_text_already_is_sent_as_it_is() -> None:
    text = Request(handler="echo", payload=msgspec.Raw(b'{"a": 1.10, "b": 1e2}')).text()
    assert text.endswith('"payload": {"a": 1.10, "b": 1e2}}')


PLAIN = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
JSON = st.recursive(PLAIN, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner))


@given(JSON)
def test_any_json_value_arrives_as_it_is(value: object) -> None:
    assert json.loads(Request(handler="echo", payload=value).text())["payload"] == value


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, b"", object(), datetime(2030, 1, 1)])
def test_what_is_no_json_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="no JSON value"):
        Request(handler="echo", payload=value).text()


def test_an_unknown_field_of_a_mapping_is_refused() -> None:
    with pytest.raises(InvalidValue, match="prio"):
        request({"handler": "echo", "prio": 1})


@given(st.lists(st.text(max_size=5)), st.integers(1, 4))
def test_batches_keep_everything_in_order(texts: list[str], size: int) -> None:
    found = list(batches(texts, size))
    assert [one.decode() for batch in found for one in batch] == texts
    assert all(0 < len(batch) <= size for batch in found)


def test_a_batch_is_no_larger_than_a_web_server_takes() -> None:
    job = '{"handler": "echo", "payload": "' + "x" * (1 << 20) + '"}'
    found = list(batches([job] * 40, 1000))
    bodies = [b'{"jobs":[' + b",".join(batch) + b"]}" for batch in found]
    assert sum(map(len, found)) == 40
    assert max(map(len, bodies)) <= MAX_BATCH_BYTES
    assert len(found) == 3


def test_batches_take_no_more_than_they_need() -> None:
    taken = []

    def texts() -> object:
        for number in range(10):
            taken.append(number)
            yield str(number)

    next(iter(batches(texts(), 3)))  # type: ignore[arg-type]
    assert len(taken) <= 4


def test_addresses_begin_with_the_one_that_answered() -> None:
    found = Addresses(["http://a:1/", "http://b:2, http://c:3", "http://a:1"])
    assert list(found) == ["http://a:1", "http://b:2", "http://c:3"]
    found.answered("http://b:2")
    assert list(found) == ["http://b:2", "http://c:3", "http://a:1"]
