"""A handler made ready: JSON in, JSON out, strictly, nothing lost on the way; and what it publishes."""

from __future__ import annotations

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as PydanticRefusal
from pydantic_core import ErrorDetails, PydanticSerializationError

from mutirao.contract import (
    LARGEST_RESULT,
    NAME,
    AnyHandler,
    Context,
    Handler,
    HandlerDefaults,
    PayloadRefused,
    ResultRefused,
    SchemaHandler,
)
from mutirao.errors import ContractError
from mutirao.wholes import with_integers

P = TypeVar("P")
R = TypeVar("R")

_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True, slots=True)
class Contract:
    """What is published of a handler; equal fingerprints mean equal schemas and defaults."""

    handler: str
    fingerprint: str
    description: str
    payload_schema: dict[str, Any]
    result_schema: dict[str, Any]
    defaults: dict[str, Any]


class Binding(Protocol):
    """A handler of either kind, made ready."""

    @property
    def name(self) -> str:
        """The handler's name."""

    @property
    def defaults(self) -> HandlerDefaults:
        """The handler's defaults."""

    def parse(self, raw: bytes) -> Any:
        """The payload as `call` takes it; PayloadRefused names the field that does not fit."""

    def call(self, payload: Any, context: Context) -> bytes:
        """Runs one attempt; the result as JSON that PostgreSQL's jsonb takes, or ResultRefused."""

    def contract(self) -> Contract:
        """The contract to publish."""


def bind(handler: AnyHandler) -> Binding:
    """The handler made ready; ContractError when its name or its types are none."""
    if not isinstance(handler.name, str) or not NAME.fullmatch(handler.name):
        raise ContractError(
            f"{handler.name!r} is no name for a handler",
            hint="a letter, then up to 99 letters, digits, dots, underscores or hyphens",
        )
    return SchemaBound(handler) if isinstance(handler, SchemaHandler) else Bound(handler)


class Bound(Generic[P, R]):
    """A handler whose payload and result are of Python types."""

    def __init__(self, handler: Handler[P, R]) -> None:
        self.name = handler.name
        self.defaults = handler.defaults
        self.handler = handler
        try:
            self._payload: TypeAdapter[P] = TypeAdapter(handler.payload_type)
            self._result: TypeAdapter[R] = TypeAdapter(handler.result_type)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            # What pydantic goes on to advise is for whoever writes types for it.
            raise ContractError(
                f"handler {handler.name!r} has a type without a schema: {error.message.partition('. ')[0]}",
                hint="derive classes of your own from mutirao.contract.Payload",
            ) from error

    def parse(self, raw: bytes) -> P:
        """The payload as the handler's type; PayloadRefused names the field that does not fit."""
        try:
            return self._payload.validate_json(raw, strict=True)
        except PydanticRefusal as error:
            errors = _errors(error)
        # JSON Schema, and so the door, takes 5.0 and 1e2 for integers.
        mended = with_integers(raw, [error["loc"] for error in errors if error["type"] == "int_type"])
        if mended != raw:
            try:
                return self._payload.validate_json(mended, strict=True)
            except PydanticRefusal as error:
                errors = _errors(error)
        raise PayloadRefused(".".join(map(str, errors[0]["loc"])), errors[0]["msg"])

    def call(self, payload: P, context: Context) -> bytes:
        """Runs the handler on a parsed payload; its result as JSON."""
        return self.dump(self.handler.run(payload, context))

    def dump(self, result: R) -> bytes:
        """The result as JSON that PostgreSQL's jsonb takes; ResultRefused otherwise."""
        try:
            raw = self._result.dump_json(result, warnings="error")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise ResultRefused(f"the result is not of the declared type: {error}") from error
        return _storable(raw)

    def contract(self) -> Contract:
        """The contract to publish: schemas as JSON Schema, defaults as plain values."""
        try:
            payload, result = (
                self._payload.json_schema(mode="validation"),
                self._result.json_schema(mode="serialization"),
            )
        except PydanticUserError as error:
            raise ContractError(f"handler {self.name!r} has a type without a JSON Schema: {error}") from error
        own = getattr(self.handler, "description", None)
        description = own if isinstance(own, str) else (inspect.getdoc(type(self.handler)) or "")
        return _contract(self.name, description, payload, result, self.defaults)


class SchemaBound:
    """A handler whose payload and result are JSON text that fits a schema."""

    def __init__(self, handler: SchemaHandler) -> None:
        # A node without such handlers does without the validator's memory.
        from mutirao.explaining import Schema  # noqa: PLC0415

        self.name = handler.name
        self.defaults = handler.defaults
        self.handler = handler
        try:
            what = "payload"
            self._payload = Schema(handler.payload_schema)
            what = "result"
            self._result = Schema(handler.result_schema)
        except ValueError as error:
            raise ContractError(f"`{what}` of handler {handler.name!r} is no JSON Schema: {error}") from error

    def parse(self, raw: bytes) -> bytes:
        """The payload as it came; PayloadRefused names the first field that does not fit."""
        try:
            payload = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise PayloadRefused("", f"is no JSON that can be looked into: {error}") from None
        for path, message in self._payload.faults(payload):
            raise PayloadRefused(".".join(path), message)
        return raw

    def call(self, payload: bytes, context: Context) -> bytes:
        """Runs the handler; what it gave, which fits its schema."""
        return self.dump(self.handler.run(payload, context))

    def dump(self, raw: bytes) -> bytes:
        """The result as it came; ResultRefused when it is no JSON, or does not fit."""
        try:
            result = msgspec.json.decode(_storable(raw))
        except (msgspec.DecodeError, RecursionError) as error:
            begin = raw[:60].decode(errors="replace")
            raise ResultRefused(f"the result is not JSON: {error}; it begins with {begin!r}") from None
        for path, message in self._result.faults(result):
            place = ".".join(("result", *path))
            raise ResultRefused(f"the result does not fit its schema: {place}: {message}")
        return raw

    def contract(self) -> Contract:
        """The contract to publish: the schemas as they are."""
        one = self.handler
        return _contract(one.name, one.description, one.payload_schema, one.result_schema, one.defaults)


def contract_of(handler: AnyHandler) -> Contract:
    """The handler's contract; ContractError when a type has no JSON Schema or the name is no name."""
    return bind(handler).contract()


def fingerprint(parts: Mapping[str, object]) -> str:
    """SHA-256 over the canonical JSON of schemas and defaults."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _contract(
    name: str, description: str, payload: dict[str, Any], result: dict[str, Any], defaults: HandlerDefaults
) -> Contract:
    parts = {"payload_schema": payload, "result_schema": result, "defaults": asdict(defaults)}
    return Contract(name, fingerprint(parts), description, **parts)


def _errors(error: PydanticRefusal) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False, include_input=False)


def _storable(raw: bytes) -> bytes:
    if len(raw) > LARGEST_RESULT:
        raise ResultRefused(f"the result has {len(raw)} bytes, more than the {LARGEST_RESULT} allowed")
    if b"\\u0000" in raw and _NUL.search(raw):
        raise ResultRefused("the result holds a NUL character, which jsonb cannot store")
    return raw
