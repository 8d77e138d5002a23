"""A directory of handlers: what is taken, what is refused, and what the refusal says to do."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mutirao.errors import ContractError
from mutirao.registry import Finding, HandlerConfig, check, load_registry
from tests.support.handlers_dir import handlers_dir, program, write

GREETER = """
from mutirao.contract import handler
from _words import GREETING

@handler("greet")
def greet(name: str) -> str:
    return f"{GREETING}, {name}"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return handlers_dir(tmp_path)


def _refusal(directory: Path) -> ContractError:
    with pytest.raises(ContractError) as refused:
        load_registry(HandlerConfig(directory=str(directory)))
    return refused.value


def test_python_files_and_executables_are_found_and_the_rest_is_left_alone(directory: Path) -> None:
    write(directory, "greeter.py", GREETER)
    write(directory, "_words.py", "GREETING = 'Olá'")
    write(directory, ".hidden", "")
    write(directory, "README.md", "What is here")
    program(
        directory, "backup.sh", "cat", handler="night.backup", description="Copies", defaults={"timeout": 9}
    )
    program(directory, "plain", "cat")
    (directory / "data").mkdir()
    write(directory / "data", "helper", "#!/bin/sh", 0o755)
    registry = load_registry(HandlerConfig(directory=str(directory)))
    assert {"greet", "night.backup", "plain"} < set(registry.names())
    assert [name for name in registry.names() if "helper" in name or "README" in name] == []
    contract = {one.handler: one for one in registry.contracts()}["night.backup"]
    assert (contract.description, contract.defaults["timeout"], contract.payload_schema) == (
        "Copies",
        9.0,
        {},
    )


def test_a_schema_may_leave_out_the_extension(directory: Path) -> None:
    program(directory, "backup.sh", "cat")
    (directory / "backup.sh.json").rename(directory / "backup.json")
    assert load_registry(HandlerConfig(directory=str(directory))).bound("backup") is not None


def test_an_executable_is_published_as_its_schema_says(directory: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    program(directory, "counts", "cat", payload=schema, result={"type": "number"})
    bound = load_registry(HandlerConfig(directory=str(directory))).bound("counts")
    assert bound is not None
    contract = bound.contract()
    assert (contract.payload_schema, contract.result_schema) == (schema, {"type": "number"})
    assert len(contract.fingerprint) == 64


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Invalid JSON"),
        ("{}", "`payload` is required"),
        ('{"payload": {}, "descripton": ""}', "`descripton` is not a known field"),
        ('{"payload": {}, "defaults": {"retries": 1}}', "`defaults.retries` is not a known field"),
        ('{"payload": {}, "defaults": {"backoff": {"bass": 1}}}', "`defaults.backoff.bass` is not a known"),
        (
            '{"payload": {}, "defaults": {"timeout": "5"}}',
            "`defaults.timeout` Input should be a valid number",
        ),
        ('{"payload": {}, "defaults": {"priority": 11}}', "defaults: priority must be 0–9: 11"),
        ('{"payload": {}, "defaults": {"backoff": {"base": -1}}}', "defaults: backoff.base must be"),
        ('{"payload": {"type": "objekt"}}', "`payload` of handler 'wrong' is no JSON Schema: `type`: "),
        (
            '{"payload": {}, "result": {"$ref": "https://a.example/a.json"}}',
            "`result` of handler 'wrong' is no",
        ),
        ('{"payload": {}, "handler": "a b"}', "no name for a handler"),
    ],
)
def test_a_wrong_schema_file_is_named_with_the_field(directory: Path, text: str, says: str) -> None:
    program(directory, "wrong", "cat")
    write(directory, "wrong.json", text)
    refusal = _refusal(directory)
    assert says in refusal.message
    assert "wrong" in refusal.message


def test_what_does_not_belong_together_is_refused_and_says_what_to_do(directory: Path) -> None:
    path = program(directory, "tool", "cat")
    path.chmod(0o644)
    refusal = _refusal(directory)
    assert refusal.message == f"{path} is not executable"
    assert refusal.hint == f"chmod +x {path}"
    path.unlink()
    refusal = _refusal(directory)
    assert refusal.message == f"{path}.json is a schema without an executable `tool`"
    write(directory, "tool.py", "")
    assert "Python handlers" in _refusal(directory).hint
    (directory / "tool.json").unlink()
    (directory / "tool.py").unlink()
    write(directory, "tool", "#!/bin/sh", 0o755)
    refusal = _refusal(directory)
    assert refusal.message == f"{path} is executable but has no schema beside it"
    assert str(path.with_suffix(".json")) in refusal.hint


def test_two_schemas_or_two_subjects_are_refused(directory: Path) -> None:
    path = program(directory, "tool.sh", "cat")
    write(directory, "tool.json", '{"payload": {}}')
    assert "two schemas, tool.sh.json and tool.json" in _refusal(directory).message
    (directory / "tool.sh.json").unlink()
    write(directory, "tool", path.read_text(), 0o755)
    assert "could be the schema of tool and of tool.sh" in _refusal(directory).message


def test_a_script_without_an_interpreter_is_refused(directory: Path) -> None:
    path = program(directory, "tool", "cat")
    path.write_text("echo 1\n")
    assert "does not say what runs it" in _refusal(directory).message
    path.write_bytes(b"#!/bin/sh\r\necho 1\r\n")
    assert _refusal(directory).message == f"{path} has Windows line endings"
    subprocess.run(["sh", "-c", _refusal(directory).hint], check=True)
    assert path.read_bytes() == b"#!/bin/sh\necho 1\n"
    path.write_text("#! /bin/nosuchsh -e\n")
    assert _refusal(directory).message == f"{path} is to be run by `/bin/nosuchsh`, which is not there"
    path.write_text("#!\n")
    assert "does not say what runs it" in _refusal(directory).message
    path.write_text("#! /bin/sh -eu\n")
    assert load_registry(HandlerConfig(directory=str(directory))).bound("tool") is not None


@pytest.mark.parametrize("mode", [0o775, 0o757])
@pytest.mark.parametrize("what", ["directory", "python", "shared", "program", "schema", "cache"])
def test_what_others_could_change_is_refused(directory: Path, what: str, mode: int) -> None:
    program(directory, "tool", "cat")
    write(directory, "greeter.py", GREETER)
    write(directory, "_words.py", "GREETING = 'Olá'")
    (directory / "__pycache__").mkdir()
    names = {
        "directory": ".", "python": "greeter.py", "shared": "_words.py", "program": "tool",
        "schema": "tool.json", "cache": "__pycache__",
    }  # fmt: skip
    loose = directory / names[what]
    loose.chmod(mode)
    refusal = _refusal(directory)
    assert refusal.message.startswith(f"{loose} can be written to by others")
    assert refusal.hint == f"chmod go-w {loose}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_belongs_to_somebody_else_is_refused(directory: Path) -> None:
    path = program(directory, "tool", "cat")
    os.chown(path, 12345, -1)
    refusal = _refusal(directory)
    assert refusal.message.startswith(f"{path} belongs to 12345")
    assert refusal.hint == f"chown root {path}"


def test_links_are_refused_and_a_missing_directory_is_named(directory: Path, tmp_path: Path) -> None:
    (directory / "tool").symlink_to("/bin/true")
    assert "symbolic link" in _refusal(directory).message
    assert _refusal(tmp_path / "nowhere").message == f"{tmp_path / 'nowhere'}: No such file or directory"
    file = write(tmp_path, "file", "")
    assert _refusal(file).message == f"{file} is not a directory"


def test_a_python_file_that_breaks_is_named_with_the_line(directory: Path) -> None:
    path = write(directory, "broken.py", "import os\n\nraise RuntimeError('not today')\n")
    assert _refusal(directory).message == f"{path} cannot be imported: line 3: RuntimeError: not today"
    path.write_text("def f(:\n")
    assert "SyntaxError" in _refusal(directory).message
    path.write_text("import sys\nsys.exit(0)\n")
    assert "line 2: SystemExit" in _refusal(directory).message
    path.write_text("x = 1\n")
    assert "defines no handler" in _refusal(directory).message


def test_a_name_taken_twice_is_refused_and_both_files_are_named(directory: Path) -> None:
    first = program(directory, "a", "cat", handler="same")
    second = program(directory, "b", "cat", handler="same")
    refusal = _refusal(directory)
    assert str(first) in refusal.message
    assert str(second) in refusal.message


def test_a_seal_follows_contracts_and_not_programs(directory: Path) -> None:
    def seal() -> str:
        return HandlerConfig(directory=str(directory)).sealed().seal

    seals = [seal()]
    for name in ("greet.py", "_words.py", "tool.json", "greet.py"):
        write(directory, name, str(len(seals)))
        seals.append(seal())
    assert len(set(seals)) == 5
    write(directory, "tool", "#!/bin/sh", 0o755)
    write(directory, "README.md", "")
    assert seal() == seals[-1]


def test_a_check_tells_all_at_once(directory: Path) -> None:
    good = program(directory, "good", "cat")
    bad = program(directory, "bad", "cat", payload={"type": "objekt"})
    loose = program(directory, "loose", "cat")
    loose.chmod(0o777)
    again = program(directory, "again", "cat", handler="good")
    readme = write(directory, "README.md", "")
    found = {one.origin: one for one in check(HandlerConfig(directory=str(directory)))}
    assert found["the built-in echo"] == Finding("the built-in echo", ("echo",))
    assert found[str(again)].handlers == ("good",)
    assert "objekt" in found[str(bad)].error
    assert found[str(loose)].hint == f"chmod go-w {loose}"
    assert f"defined by both {again} and {good}" in found[str(good)].error
    assert (found[str(readme)].error, found[str(readme)].hint[:8]) == ("", "ignored:")


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        (
            "@handler\ndef f(payload: str) -> str: ...",
            "@handler lacks the handler's name",
            '@handler("NAME")',
        ),
        (
            "@handler('f')\ndef f(payload): ...",
            "lacks a type annotation for 'payload'",
            "def f(payload: TYPE",
        ),
        ("@handler('f')\ndef f() -> str: ...", "must take a payload", "def f(payload: TYPE"),
        (
            "class P: ...\n@handler('f')\ndef f(payload: P) -> str: ...",
            "without a schema: ",
            "contract.Payload",
        ),
    ],
)
def test_what_is_wrong_with_a_function_is_said_in_a_line(
    directory: Path, text: str, says: str, hint: str
) -> None:
    write(directory, "wrong.py", f"from mutirao.contract import handler\n{text}\n")
    refusal = _refusal(directory)
    assert says in refusal.message
    assert hint in refusal.hint
    assert "\n" not in refusal.message
