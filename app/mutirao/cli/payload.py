"""A payload on the command line: JSON text, a file that holds it, or standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import msgspec

from mutirao.errors import InvalidInput

FORMS = "JSON|@FILE|-"


def read_payload(given: str) -> msgspec.Raw:
    """The payload's text: as given, from a file (`@name`), or from standard input (`-`)."""
    if given == "-":
        text = sys.stdin.read()
    elif given.startswith("@"):
        try:
            text = Path(given[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput("payload", f"{given[1:]}: {error}") from None
    else:
        text = given
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            "payload", f"is not JSON: {error}", hint='for example \'{"message": "hi"}\''
        ) from None
    return msgspec.Raw(text.encode("utf-8", "surrogatepass"))
