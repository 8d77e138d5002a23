"""What a handler is: the protocols, the decorator, and what a handler may raise."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict

from mutirao.context import Context, ContextLost, Discard, Failure, Retry
from mutirao.domain.job import LONGEST, MOST_RETRIES, QUEUE_NAME, Backoff
from mutirao.errors import ContractError

__all__ = [
    "AnyHandler",
    "Context",
    "ContextLost",
    "Discard",
    "Failure",
    "FunctionHandler",
    "Handler",
    "HandlerDefaults",
    "Payload",
    "PayloadRefused",
    "ResultRefused",
    "Retry",
    "SchemaHandler",
    "handler",
]

P = TypeVar("P")
R = TypeVar("R")
P_contra = TypeVar("P_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,99}")
LONGEST_GRACE = 60.0
LARGEST_RESULT = 1 << 20
_SIGNATURE = "it looks like `def f(payload: TYPE, context: Context) -> RESULT`; the context is optional"


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
        seconds = f"seconds, at most {LONGEST:g}"
        for name, value, right, wanted in (
            ("queue", self.queue, re.fullmatch(QUEUE_NAME, self.queue), f"like {QUEUE_NAME}"),
            ("timeout", self.timeout, 0 < self.timeout <= LONGEST, f"above 0 {seconds}"),
            ("max_retries", self.max_retries, 0 <= self.max_retries <= MOST_RETRIES, f"0–{MOST_RETRIES}"),
            ("priority", self.priority, 0 <= self.priority <= 9, "0–9"),
            ("backoff.base", self.backoff.base, 0 <= self.backoff.base <= LONGEST, seconds),
            ("backoff.cap", self.backoff.cap, 0 <= self.backoff.cap <= LONGEST, seconds),
            ("cancel_grace", self.cancel_grace, 0 <= self.cancel_grace <= LONGEST_GRACE,
             f"0–{LONGEST_GRACE:g} seconds"),
        ):  # fmt: skip
            if not right:
                raise ContractError(f"{name} must be {wanted}: {value!r}")


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


@runtime_checkable
class SchemaHandler(Protocol):
    """A handler of JSON text: its payloads and results fit schemas (JSON Schema 2020-12), not types."""

    @property
    def name(self) -> str:
        """The name jobs are submitted under."""

    @property
    def description(self) -> str:
        """What it does."""

    @property
    def payload_schema(self) -> dict[str, Any]:
        """What a payload must fit."""

    @property
    def result_schema(self) -> dict[str, Any]:
        """What `run` gives."""

    @property
    def defaults(self) -> HandlerDefaults:
        """What a submission need not say."""

    def run(self, payload: bytes, context: Context) -> bytes:
        """Does one attempt: a payload as stored, to a result of JSON text."""


AnyHandler = Handler[Any, Any] | SchemaHandler


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
    if not isinstance(name, str):
        raise ContractError("@handler lacks the handler's name", hint='write @handler("NAME")')
    defaults = HandlerDefaults(queue, timeout, max_retries, backoff or Backoff(), priority, cancel_grace)

    def decorate(function: Callable[..., R]) -> FunctionHandler[Any, R]:
        parameters = list(inspect.signature(function).parameters.values())
        hints = typing.get_type_hints(function, include_extras=True)
        if len(parameters) not in (1, 2):
            raise ContractError(
                f"handler {name!r} must take a payload and, if it wants one, a context", hint=_SIGNATURE
            )
        for wanted in (parameters[0].name, "return"):
            if wanted not in hints:
                raise ContractError(
                    f"handler {name!r} lacks a type annotation for {wanted!r}", hint=_SIGNATURE
                )
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
