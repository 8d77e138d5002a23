from __future__ import annotations

import importlib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

import mutirao
from mutirao.cli.demo import files_of
from mutirao.cli.main import VERBS, cli, main

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_every_verb_exists_helps_and_is_in_the_readme(verb: str) -> None:
    module, summary = VERBS[verb]
    command: click.Command = importlib.import_module(module).command
    assert CliRunner().invoke(command, ["--help"]).exit_code == 0
    assert summary.endswith(".")
    assert f"`mutirao {verb}" in (readme := (ROOT / "README.md").read_text()) or f"`{verb}`" in readme


def test_the_version_is_the_packages() -> None:
    assert CliRunner().invoke(cli, ["--version"]).output == f"mutirao, version {mutirao.__version__}\n"


def test_an_error_is_a_message_a_hint_and_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mutirao.toml"
    file.write_text('postgres = "postgresql:///x"\n')
    file.chmod(0o644)
    with pytest.raises(SystemExit) as caught:
        main(["settings", "check", str(file)])
    assert caught.value.code == 2
    assert capsys.readouterr().err.splitlines() == [
        f"mutirao: {file}: holds passwords but others may read it",
        f"  hint: chmod 600 {file}",
    ]


def test_the_demonstration_takes_every_regular_file_but_what_tools_keep(tmp_path: Path) -> None:
    for name in ("b.txt", "a/é ü.txt", "a/.hidden", ".git/HEAD", "a/__pycache__/x.pyc", ".venv/bin/python"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("b.txt")
    (tmp_path / "loop").symlink_to(".")
    found = [str(path.relative_to(tmp_path)) for path in files_of(tmp_path)]
    assert found == ["b.txt", "a/.hidden", "a/é ü.txt"]
