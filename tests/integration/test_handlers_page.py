"""What docs/handlers.md shows works as shown: its files are loaded, run and tested; its limits are ours."""

from __future__ import annotations

import importlib
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mutirao.cli.main import VERBS
from mutirao.context import LONGEST_KEY, LONGEST_NOTE
from mutirao.contract import LARGEST_RESULT, LONGEST_GRACE, Discard, HandlerDefaults
from mutirao.handlers import built_in
from mutirao.handlers.command import Invocation
from mutirao.handlers.deployed import Description
from mutirao.handlers.http_message import Request
from mutirao.registry import HandlerConfig, Registry, check, load_registry
from mutirao.tail import KEPT
from mutirao.testing import attempt_of
from tests.support.handlers_dir import handlers_dir, write

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "handlers.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+ ([\w.]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = handlers_dir(tmp_path_factory.mktemp("page"))
    for name, text in FILES.items():
        if not name.startswith("test_"):
            write(made, name, text, 0o755 if name.endswith(".sh") else 0o644)
    return made


@pytest.fixture(scope="module")
def registry(directory: Path) -> Registry:
    config = HandlerConfig(directory=str(directory))
    assert [finding for finding in check(config) if finding.error or finding.hint] == []
    return load_registry(config)


def _result(registry: Registry, name: str, payload: object) -> object:
    bound = registry.bound(name)
    assert bound is not None
    found: object = json.loads(attempt_of(bound, json.dumps(payload).encode()))
    return found


def test_the_handlers_shown_work(registry: Registry) -> None:
    assert _result(registry, "greet", {"name": "Ana"}) == {"text": "Olá, Ana!", "attempt": 1}
    assert _result(registry, "stock", "screw") == 100
    assert _result(registry, "copy_files", ["a", "b"]) == 2
    assert _result(registry, "notify", {"to": "Ana", "text": "x"}) is True
    free = _result(registry, "disk_free", {"path": "/"})
    assert isinstance(free, dict)
    assert free["kib"] > 0
    for name, payload in (("stock", "boat"), ("disk_free", {"path": "/nowhere/at/all"})):
        with pytest.raises(Discard):
            _result(registry, name, payload)


def test_the_tests_shown_pass(directory: Path) -> None:
    write(directory.parent, "test_greet.py", FILES["test_greet.py"])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_greet.py"]
    ended = subprocess.run(
        command,
        cwd=directory.parent,
        env={"PYTHONPATH": str(directory), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        check=False,
        text=True,
    )
    assert ended.returncode == 0, ended.stdout
    assert "3 passed" in ended.stdout


def test_the_examples_are_those_shown() -> None:
    examples = {path.name: path for path in (DOCS / "examples" / "handlers").iterdir() if path.is_file()}
    assert set(examples) == {"greet.py", "disk_free.sh", "disk_free.json"}
    for name, path in examples.items():
        assert path.read_text(encoding="utf-8") == FILES[name]
    assert examples["disk_free.sh"].stat().st_mode & 0o111


def test_the_commands_shown_are_commands(directory: Path) -> None:
    shown = re.findall(r"^\$ mutirao (\w+) (.*)$", PAGE, re.MULTILINE)
    assert len(shown) >= 6
    for verb, rest in shown:
        command = importlib.import_module(VERBS[verb][0]).command
        arguments = shlex.split(rest.replace("~/handlers", str(directory)))
        if isinstance(command, click.Group):
            assert arguments[0] in command.commands
            command, arguments = command.commands[arguments[0]], arguments[1:]
        with command.make_context(verb, list(arguments)):  # parsed, not run
            pass
        if verb == "handlers" and command.name in {"check", "run"}:
            assert CliRunner().invoke(command, arguments).exit_code == 0


def test_every_field_and_default_is_on_the_page() -> None:
    shown = set(re.findall(r"`(\w+)`", PAGE))
    for kind in (Description, Request, Invocation):
        assert set(kind.model_fields) <= shown
    assert {name for name in HandlerDefaults.__dataclass_fields__ if name not in shown} == set()
    assert set(built_in((), ("/x",), ("x",))) <= shown


def test_the_limits_are_those_stated() -> None:
    assert (LARGEST_RESULT, KEPT) == (1 << 20, 64 << 10)
    assert f"| {LONGEST_NOTE} and {LONGEST_KEY} characters |" in PAGE
    assert f"| {LONGEST_GRACE:g} seconds |" in PAGE
