"""What a web server answered: a document as sent, or one of our errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx
import msgspec

from mutirao.errors import Conflict, InvalidInput, MutiraoError, NotFound, Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """An answer: `text` is its JSON as sent, `value` the same as Python values."""

    text: str
    value: Any

    def __getitem__(self, key: str) -> Any:
        return self.value[key]

    def items(self, name: str) -> list[Document]:
        """The members of the list of that name, each as it was sent."""
        members = typed(typed(self.text, dict[str, msgspec.Raw])[name], list[msgspec.Raw])
        return [Document(bytes(one).decode(), msgspec.json.decode(one)) for one in members]

    def as_(self, kind: type[T]) -> T:
        """The same as a typed value; Unavailable when the server speaks of something else."""
        return typed(self.text, kind)


class Refused(InvalidInput):
    """What a server will not take; `errors` are all the fields it found wrong, `field` is the first one."""

    def __init__(self, errors: list[dict[str, str]], *, hint: str = "") -> None:
        others = "".join(f"; {one['field']}: {one['message']}" for one in errors[1:])
        super().__init__(errors[0]["field"], errors[0]["message"] + others, hint=hint)
        self.errors = errors


class NoAnswer(Unavailable):
    """One address gave no usable answer; the next may.

    `refused`: nobody listens there; `arrived`: the request may have been carried out all the same; `broken`:
    it failed inside, and would again; `after`: the seconds it asks to wait.
    """

    def __init__(
        self,
        why: str,
        *,
        hint: str = "",
        refused: bool = False,
        arrived: bool = True,
        broken: bool = False,
        after: float = 0.0,
    ) -> None:
        super().__init__(why, hint=hint)
        self.refused = refused
        self.arrived = arrived
        self.broken = broken
        self.after = after


def typed(text: str | bytes | msgspec.Raw, kind: type[T]) -> T:
    """JSON text as `kind`; Unavailable when it does not fit, which two versions that differ can cause."""
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.ValidationError as error:
        raise Unavailable(
            f"the answer is not understood: {error}", hint="does the node run another version of Mutirão?"
        ) from None


def read(response: httpx.Response) -> Document:
    """The document of a successful answer; raises the error that any other one stands for."""
    try:
        value = msgspec.json.decode(response.content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise NoAnswer(f"it answered {response.status_code}, not in JSON") from None
    if response.is_success:
        return Document(response.text, value)
    raise _error(response, value if isinstance(value, dict) else {})


def _error(response: httpx.Response, problem: Mapping[str, Any]) -> MutiraoError:
    status = response.status_code
    detail, hint = str(problem.get("detail") or f"it answered {status}"), str(problem.get("hint", ""))
    if status == 404:
        return NotFound(detail, hint=hint)
    if status == 409:
        return Conflict(detail, hint=hint)
    if status >= 500:
        after = response.headers.get("Retry-After", "")
        wait = float(after) if after.isdecimal() else 0.0
        return NoAnswer(detail, hint=hint, broken=status == 500, after=wait)
    wrong = [one for one in problem.get("errors", []) if one.get("field")]
    return Refused(wrong, hint=hint) if wrong else InvalidInput("", detail, hint=hint)
