"""Mistakes in settings, in words: every one at once, and none with a secret in it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from mutirao.settings.model import Settings


def closest(name: str) -> str | None:
    """The setting that was probably meant, None where none is close."""
    matches = difflib.get_close_matches(name, Settings.model_fields, n=1, cutoff=0.8)
    return matches[0] if matches else None


def explain(error: ValidationError) -> str:
    """Every mistake in one line, fields named, values left out."""
    return "; ".join(
        _explain_one(dict(item)) for item in error.errors(include_url=False, include_input=False)
    )


def _explain_one(item: Mapping[str, Any]) -> str:
    field = ".".join(str(part) for part in item["loc"])
    if item["type"] == "extra_forbidden":
        close = difflib.get_close_matches(field, Settings.model_fields, n=1, cutoff=0.6)
        return f"unknown setting `{field}`" + (f", did you mean `{close[0]}`?" if close else "")
    if item["type"] == "missing":
        return f"`{field}` is required"
    if item["type"] == "string_pattern_mismatch":
        return f"`{field}`: must be letters, digits and . _ -, at most 63, and begin with a letter or digit"
    message = str(item["msg"]).removeprefix("Value error, ")
    return f"`{field}`: {message}" if field else message


def missing_hint(error: ValidationError, prefix: str) -> str:
    """How to give what is missing; empty when nothing is."""
    missing = [str(item["loc"][0]) for item in error.errors() if item["type"] == "missing"]
    if not missing:
        return ""
    variables = ", ".join(prefix + name.upper() for name in missing)
    return f"set it in the file given with --config, or in the environment: {variables}"
