"""`echo`: gives back what it was given."""

from __future__ import annotations

from pydantic import JsonValue

from mutirao.contract import Payload, handler


class Message(Payload):
    """Any JSON value."""

    message: JsonValue


@handler("echo")
def echo(payload: Message) -> Message:
    """Returns its payload unchanged."""
    return payload
