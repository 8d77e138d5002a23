"""Every command line that the documentation or a --help shows is one that the command takes."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from mutirao.cli.main import VERBS, cli

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "README.pt-BR.md"]


def shown(text: str, mark: str = r"\$ ") -> Iterator[str]:
    """The `mutirao …` lines that begin with the mark, each up to where the shell takes over."""
    for line in re.findall(rf"^{mark}(.*\bmutirao .*)$", text, re.MULTILINE):
        for part in re.split(r" \| |; ?do |; ", line):
            found = re.search(r"(?:^|[ /])mutirao ((?!agent'|\w+: ).*)", part)
            if found and not part.strip().startswith(("kill", "#", "pgrep")):
                yield re.sub(r" [<>&].*| #.*|; done$", "", found[1]).strip()


def groups() -> Iterator[click.Command]:
    for module, _ in VERBS.values():
        command: click.Command = importlib.import_module(module).command
        yield command
        if isinstance(command, click.Group):
            yield from command.commands.values()


def parse(command: click.Command, name: str, words: list[str], parent: click.Context | None) -> None:
    """Reads the words as the command would, and runs nothing."""
    context = command.make_context(name, words, parent=parent)
    if isinstance(command, click.Group):
        name, inner, rest = command.resolve_command(context, [*context._protected_args, *context.args])
        assert name is not None and inner is not None
        parse(inner, name, rest, context)


def takes(line: str) -> None:
    words = [re.sub(r"^ID…?$", "01890a5d-ac96-774b-bcce-b302099a8057", word) for word in shlex.split(line)]
    try:
        parse(cli, "mutirao", words, None)
    except click.BadParameter as error:
        # Which files there are on the reader's machine is not the page's business.
        assert "does not exist" in error.format_message(), f"{line}: {error.format_message()}"
    except click.UsageError as error:
        raise AssertionError(f"mutirao {line}: {error.format_message()}") from None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_of_a_page_is_taken(page: Path) -> None:
    for line in shown(page.read_text(encoding="utf-8")):
        takes(line)


@pytest.mark.parametrize("command", list(groups()), ids=lambda command: str(command.name))
def test_every_verb_has_an_example_and_it_is_taken(command: click.Command) -> None:
    lines = list(shown(f"{command.epilog or ''}\n{command.help or ''}".replace("\b", ""), "  "))
    assert lines or isinstance(command, click.Group)
    for line in lines:
        takes(line)


def test_lines_are_found() -> None:
    text = "$ mutirao jobs wait - --timeout 6 < ids\n$ echo x | .venv/bin/mutirao b > y\nmutirao c\n"
    assert list(shown(text)) == ["jobs wait - --timeout 6", "b"]
