"""What a handler is: the protocol, the decorator, its published schema and the strict way in and out."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import re
import typing
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic import ValidationError as PydanticRefusal
from pydantic_core import PydanticSerializationError

from mutirao.context import Context, ContextLost, Discard, Retry
from mutirao.domain.job import Backoff
from mutirao.errors import ContractError

__all__ = [
    "Bound",
    "Context",
    "ContextLost",
    "Contract",
    "Discard",
    "FunctionHandler",
    "Handler",
    "HandlerDefaults",
    "Payload",
    "PayloadRefused",
    "ResultRefused",
    "Retry",
    "contract_of",
    "fingerprint",
    "handler",
]

P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
LONGEST_GRACE = 60.0
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


class Payload(BaseModel):
    """A base for payload types: nothing unknown, nothing converted, nothing changed afterwards."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


@dataclass(frozen=True, slots=True)
class HandlerDefaults:
    """What a job gets when its submission names nothing else."""

    queue: str = "default"
    timeout: float = 300.0
    max_retries: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    priority: int = 5
    cancel_grace: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.timeout) and self.timeout > 0):
            raise ContractError(f"timeout must be a number of seconds above 0, not {self.timeout!r}")
        if self.max_retries < 0:
            raise ContractError(f"max_retries must not be negative: {self.max_retries!r}")
        if not 0 <= self.priority <= 9:
            raise ContractError(f"priority must be between 0 and 9: {self.priority!r}")
        if not 0 <= self.cancel_grace <= LONGEST_GRACE:
            raise ContractError(
                f"cancel_grace must be from 0 to {LONGEST_GRACE:g} seconds, not {self.cancel_grace!r}"
            )


class PayloadRefused(ContractError):
    """A payload does not fit the handler's type; `field` is the path inside the payload ('' for its root)."""

    code = "payload_refused"

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}" if field else message)
        self.field = field


class ResultRefused(ContractError):
    """A handler's result does not fit its declared type or cannot be stored as JSON."""

    code = "result_refused"


class Handler(Protocol[P_contra, R_co]):
    """Anything that does jobs of one name; types are whatever pydantic's TypeAdapter takes."""

    @property
    def name(self) -> str:
        """The name jobs are submitted under."""

    @property
    def payload_type(self) -> Any:
        """The type a payload must fit, strictly."""

    @property
    def result_type(self) -> Any:
        """The type of what `run` returns."""

    @property
    def defaults(self) -> HandlerDefaults:
        """What a submission need not say."""

    def run(self, payload: P_contra, context: Context) -> R_co:
        """Does one attempt; may be called again for the same job, so it must be idempotent."""


@dataclass(frozen=True, slots=True)
class FunctionHandler(Generic[P, R]):
    """A function as a Handler; made by `@handler`."""

    name: str
    payload_type: Any
    result_type: Any
    defaults: HandlerDefaults
    function: Callable[..., R] = field(repr=False)
    takes_context: bool
    description: str = ""

    def run(self, payload: P, context: Context) -> R:
        """Calls the function, with the context if it takes one."""
        return self.function(payload, context) if self.takes_context else self.function(payload)


def handler(
    name: str,
    *,
    queue: str = "default",
    timeout: float = 300.0,
    max_retries: int = 3,
    backoff: Backoff | None = None,
    priority: int = 5,
    cancel_grace: float = 0.0,
) -> Callable[[Callable[..., R]], FunctionHandler[Any, R]]:
    """Makes a Handler of `function(payload: P[, context]) -> R`; the types come from its annotations."""
    defaults = HandlerDefaults(queue, timeout, max_retries, backoff or Backoff(), priority, cancel_grace)

    def decorate(function: Callable[..., R]) -> FunctionHandler[Any, R]:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function, include_extras=True)
        if len(parameters) not in (1, 2):
            raise ContractError(f"handler {name!r} must take a payload and, if it wants one, a context")
        for wanted in (parameters[0].name, "return"):
            if wanted not in hints:
                raise ContractError(f"handler {name!r} lacks a type annotation for {wanted!r}")
        return FunctionHandler(
            name=name,
            payload_type=hints[parameters[0].name],
            result_type=hints["return"],
            defaults=defaults,
            function=function,
            takes_context=len(parameters) == 2,
            description=inspect.getdoc(function) or "",
        )

    return decorate


@dataclass(frozen=True, slots=True)
class Contract:
    """What is published of a handler; equal fingerprints mean equal schemas and defaults."""

    handler: str
    fingerprint: str
    description: str
    payload_schema: dict[str, Any]
    result_schema: dict[str, Any]
    defaults: dict[str, Any]


class Bound(Generic[P, R]):
    """A handler with its types made ready: JSON in, JSON out, strictly, nothing lost on the way."""

    def __init__(self, handler: Handler[P, R]) -> None:
        if not isinstance(handler.name, str) or not NAME.fullmatch(handler.name):
            raise ContractError(
                f"{handler.name!r} is no name for a handler",
                hint="a letter, then up to 99 letters, digits, dots, underscores or hyphens",
            )
        self.handler = handler
        try:
            self._payload: TypeAdapter[P] = TypeAdapter(handler.payload_type)
            self._result: TypeAdapter[R] = TypeAdapter(handler.result_type)
        except (PydanticSchemaGenerationError, PydanticUserError) as error:
            raise ContractError(f"handler {handler.name!r} has a type without a schema: {error}") from error

    def parse(self, raw: bytes) -> P:
        """The payload as the handler's type; PayloadRefused names the field that does not fit."""
        try:
            return self._payload.validate_json(raw, strict=True)
        except PydanticRefusal as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise PayloadRefused(path, first["msg"]) from None

    def dump(self, result: R) -> bytes:
        """The result as JSON that PostgreSQL's jsonb takes; ResultRefused otherwise."""
        try:
            raw = self._result.dump_json(result, warnings="error")
        except (PydanticSerializationError, ValueError, RecursionError) as error:
            raise ResultRefused(f"the result is not of the declared type: {error}") from error
        if b"\\u0000" in raw and _NUL.search(raw):
            raise ResultRefused("the result holds a NUL character, which jsonb cannot store")
        return raw

    def contract(self) -> Contract:
        """The contract to publish: schemas as JSON Schema, defaults as plain values."""
        try:
            parts = {
                "payload_schema": self._payload.json_schema(mode="validation"),
                "result_schema": self._result.json_schema(mode="serialization"),
                "defaults": asdict(self.handler.defaults),
            }
        except PydanticUserError as error:
            raise ContractError(
                f"handler {self.handler.name!r} has a type without a JSON Schema: {error}"
            ) from error
        return Contract(
            handler=self.handler.name,
            fingerprint=fingerprint(parts),
            description=_description(self.handler),
            **parts,
        )


def contract_of(handler: Handler[Any, Any]) -> Contract:
    """The handler's contract; ContractError when a type has no JSON Schema or the name is no name."""
    return Bound(handler).contract()


def fingerprint(parts: Mapping[str, object]) -> str:
    """SHA-256 over the canonical JSON of schemas and defaults."""
    canonical = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _description(handler: Handler[Any, Any]) -> str:
    own = getattr(handler, "description", None)
    return own if isinstance(own, str) else (inspect.getdoc(type(handler)) or "")
