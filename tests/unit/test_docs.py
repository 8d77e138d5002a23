"""The documentation names every endpoint, field, verb and exit code there is, and nothing else."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import click

from mutirao.cli.main import EXIT_CODES, VERBS
from mutirao.domain.views import (
    AttemptView,
    AuditView,
    ContractView,
    DeadLetter,
    JobView,
    NodeView,
    StatusView,
)
from mutirao.services.requests import JobRequest
from mutirao.settings import Settings
from mutirao.web.factory import create_app

DOCS = Path(__file__).parents[2] / "docs"
API = (DOCS / "api.md").read_text(encoding="utf-8")
CLI = (DOCS / "cli.md").read_text(encoding="utf-8")


PARAMETER = re.compile(r"<(?:[a-z]+:)?(?:job_)?([a-z]+)>")


def _braces(match: re.Match[str]) -> str:
    return f"{{{match[1]}}}"


def endpoints() -> set[str]:
    settings = Settings.model_validate({"postgres": "postgresql://nowhere", "redis": "redis://nowhere"})
    return {
        f"{method} {PARAMETER.sub(_braces, rule.rule)}"
        for rule in create_app(settings).url_map.iter_rules()
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }


def test_every_endpoint_is_documented_and_exists() -> None:
    assert set(re.findall(r"^### `(.+)`$", API, re.MULTILINE)) == endpoints()


def test_every_field_is_documented() -> None:
    assert set(re.findall(r"^\| `(\w+)` \|", API, re.MULTILINE)) == set(JobRequest.model_fields)
    for view in (JobView, AttemptView, AuditView, DeadLetter, ContractView, NodeView, StatusView):
        missing = [name for name in view.__struct_fields__ if not re.search(f'[`"]{name}[`"]', API)]
        assert set(missing) <= {"registered_at", "redis_on", "holder", "counted_at"}


def verbs() -> set[str]:
    found = set()
    for verb, (module, _) in VERBS.items():
        command = importlib.import_module(module).command
        names = command.commands if isinstance(command, click.Group) else {"": None}
        found |= {f"mutirao {verb} {name}".strip() for name in names}
    return found


def test_every_verb_is_documented_and_exists() -> None:
    words = re.findall(r"^- `(mutirao [a-z][a-z-]*(?: [a-z][a-z-]*)?)", CLI, re.MULTILINE)
    assert set(words) == verbs()


def test_every_option_of_submit_is_documented() -> None:
    command = importlib.import_module(VERBS["submit"][0]).command
    options = {option for parameter in command.params for option in parameter.opts if option.startswith("--")}
    assert {option for option in options if option not in CLI} == set()


def test_every_exit_code_is_documented() -> None:
    assert set(re.findall(r"^\| (\d) \|", CLI, re.MULTILINE)) == {
        "0", "1", *(str(code) for _, code in EXIT_CODES)
    }  # fmt: skip
