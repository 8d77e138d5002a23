"""The JSON Schemas of what the API takes and answers, from the types themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from mutirao.web.api.operations import Operation
from mutirao.web.problems import Problem

_REFERENCE = "#/components/schemas/"


class Asked:
    """The schemas of bodies."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        bodies = {model for one in operations if one.body for model in one.body.models}
        ordered = sorted(bodies, key=lambda model: model.__name__)
        self._of, definitions = models_json_schema(
            [(model, "validation") for model in ordered], ref_template=_REFERENCE + "{model}"
        )
        self.components: dict[str, Any] = definitions.get("$defs", {})

    def body(self, models: Sequence[type[BaseModel]]) -> dict[str, Any]:
        """What a body of one of these models is."""
        schemas: list[dict[str, Any]] = [self._of[model, "validation"] for model in models]
        return schemas[0] if len(schemas) == 1 else {"oneOf": schemas}


class Answered:
    """The schemas of answers and problems."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        types = [Problem, *(answer.type for one in operations for answer in one.answers)]
        schemas, self.components = msgspec.json.schema_components(types, ref_template=_REFERENCE + "{name}")
        self._of: dict[Any, dict[str, Any]] = dict(zip(types, schemas, strict=True))

    def of(self, kind: Any) -> dict[str, Any]:
        """What a value of this type is."""
        return self._of[kind]


def parameters(model: type[BaseModel] | None, where: str) -> Iterator[dict[str, Any]]:
    """The parameters that a model of a query or of headers stands for."""
    schema = {} if model is None else model.model_json_schema()
    for name, field in schema.get("properties", {}).items():
        required = name in schema.get("required", ())
        described = {"in": where, "name": name, "required": required, "schema": _never_null(field)}
        if "description" in field:
            described["description"] = field["description"]
        if described["schema"].get("type") == "array":
            described |= {"style": "form", "explode": False}
        yield described


def _never_null(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a parameter's value: it is left out instead of being null."""
    null = {"type": "null"}
    schema = next((choice for choice in field.get("anyOf", []) if choice != null), field)
    return {name: value for name, value in schema.items() if name not in {"title", "description"}}
