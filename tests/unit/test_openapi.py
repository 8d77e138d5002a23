"""The API's document is valid, and says of every route that there is what it takes and answers."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import pytest
import schemathesis
from flask import Flask

from mutirao.services.requests import JobRequest
from mutirao.settings import Settings
from mutirao.web.factory import API, create_app

HOST = {"Host": "localhost"}
TOKEN = "s3cret-token"


@cache
def app(token: str | None = None) -> Flask:
    nowhere = {"postgres": "postgresql://nowhere", "redis": "redis://nowhere", "api_token": token}
    return create_app(Settings.model_validate(nowhere))


def document(token: str | None = None) -> dict[str, Any]:
    headers = HOST | ({"Authorization": f"Bearer {token}"} if token else {})
    answer = app(token).test_client().get(f"{API}/openapi.json", headers=headers)
    assert answer.status_code == 200
    found: dict[str, Any] = answer.get_json()
    return found


def operations(paths: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(method.upper(), path): one for path, methods in paths.items() for method, one in methods.items()}


def references(value: object) -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in references(item)]
    if not isinstance(value, dict):
        return []
    own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
    return own + [found for item in value.values() for found in references(item)]


@pytest.mark.parametrize("token", [None, TOKEN])
def test_it_is_valid(token: str | None) -> None:
    found = document(token)
    assert found["openapi"].startswith("3.1.")
    schemathesis.openapi.from_dict(found).validate()


def test_what_it_points_to_is_in_it_and_all_of_that_is_used() -> None:
    found = document()
    used = set(references(found))
    parts = {f"#/components/{kind}/{name}" for kind, parts in found["components"].items() for name in parts}
    assert used <= parts
    assert parts - used == {"#/components/securitySchemes/bearer"}


def test_every_route_is_in_it_and_nothing_else() -> None:
    routes = {
        (method, re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", rule.rule))
        for rule in app().url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
        if rule.rule.startswith(API)
    }
    assert set(operations(document()["paths"])) == routes


def test_every_operation_has_a_name_of_its_own_a_summary_and_its_refusals() -> None:
    found = operations(document()["paths"])
    names = [one["operationId"] for one in found.values()]
    assert len(set(names)) == len(names)
    for (method, path), one in found.items():
        assert one["summary"].endswith(".")
        expected = {"401", "414", "421", "422", "431"}
        expected |= {"503"} if path != f"{API}/openapi.json" else set()
        expected |= {"404"} if "{" in path else set()
        expected |= {"403"} if method == "POST" else set()
        expected |= {"400", "413", "415"} if "requestBody" in one else set()
        assert {status for status in one["responses"] if status >= "400"} - {"409"} == expected, path


def test_links_name_operations_and_their_parameters() -> None:
    found = operations(document()["paths"])
    by_name = {one["operationId"]: one for one in found.values()}
    links = [
        link
        for one in found.values()
        for answer in one["responses"].values()
        for link in answer.get("links", {}).values()
    ]
    assert links
    for link in links:
        (parameter,) = link["parameters"]
        assert parameter in {given["name"] for given in by_name[link["operationId"]]["parameters"]}


def test_parameters_are_those_of_the_models() -> None:
    found = operations(document()["paths"])
    listed = {one["name"]: one for one in found["GET", f"{API}/jobs"]["parameters"]}
    assert listed["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 500, "default": 50}
    assert (listed["state"]["style"], listed["state"]["explode"]) == ("form", False)
    assert listed["created_after"]["schema"] == {"type": "string", "format": "date-time"}
    (header,) = found["POST", f"{API}/jobs"]["parameters"]
    assert (header["name"], header["in"]) == ("Idempotency-Key", "header")
    (path,) = found["GET", f"{API}/jobs/{{job_id}}"]["parameters"]
    assert (path["required"], path["schema"]) == (True, {"type": "string", "format": "uuid"})


def test_bodies_and_answers_are_those_of_the_models() -> None:
    found = document()
    schemas = found["components"]["schemas"]
    assert set(schemas["JobRequest"]["properties"]) == set(JobRequest.model_fields)
    assert schemas["JobRequest"]["additionalProperties"] is False
    submit = operations(found["paths"])["POST", f"{API}/jobs"]
    assert set(submit["responses"]["201"]["headers"]) == {"Location"}
    assert set(found["components"]["responses"]["Problem503"]["headers"]) == {"Retry-After"}
    assert schemas["JobView"]["properties"]["state"] == {"$ref": "#/components/schemas/State"}
    assert schemas["JobView"]["properties"]["created_at"] == {"type": "string", "format": "date-time"}


def test_a_token_is_asked_for_as_it_says() -> None:
    assert document()["security"] == [{}, {"bearer": []}]
    assert document(TOKEN)["security"] == [{"bearer": []}]
    assert app(TOKEN).test_client().get(f"{API}/openapi.json", headers=HOST).status_code == 401
