"""`mutirao doctor`: examines a node from the inside, one line per finding."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mutirao.settings import default_data_dir, environment, load_settings

if TYPE_CHECKING:
    from mutirao.doctor.finding import Finding

_COLOURS = {"OK": "green", "WARN": "yellow", "FAIL": "red"}


@click.command()
@click.option("--config", type=click.Path(path_type=Path), help="The node's mutirao.toml.")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--quiet", is_flag=True, help="Leave out what is fine.")
def command(config: Path | None, as_json: bool, quiet: bool) -> None:
    """Examine this node from the inside: machine, settings, directories, both stores, web server.

    Works whatever is broken, and changes nothing. Without --config (and MUTIRAO_POSTGRES) it looks for
    /etc/mutirao/mutirao.toml, then for the first node of `mutirao up`.
    Exit status: 0 when nothing failed (warnings may be there), 1 otherwise.

    \b
    Examples:
      mutirao doctor --config /etc/mutirao/mutirao.toml
      mutirao doctor --quiet
      mutirao doctor --json | jq '.findings[] | select(.level == "FAIL")'
    """
    from mutirao.doctor.examine import examine  # noqa: PLC0415 - other verbs must start fast

    file = config or _usual_config()
    found = []
    if file is not None and not as_json:
        click.echo(f"Examining the node of {file}")
    for finding in examine(lambda: load_settings(file, {})):
        found.append(finding)
        if not as_json and not (quiet and finding.level == "OK"):
            _print(finding)
    counts = Counter(str(finding.level) for finding in found)
    if as_json:
        click.echo(json.dumps(_document(found, counts), indent=2, ensure_ascii=False))
    else:
        click.echo(f"{counts['OK']} fine, {counts['WARN']} doubtful, {counts['FAIL']} failed")
    sys.exit(1 if counts["FAIL"] else 0)


def _usual_config() -> Path | None:
    if environment("POSTGRES"):
        return None
    usual = (Path("/etc/mutirao/mutirao.toml"), default_data_dir() / "nodes" / "1" / "mutirao.toml")
    return next((file for file in usual if file.exists()), None)


def _print(finding: Finding) -> None:
    level = click.style(f"{finding.level:4}", fg=_COLOURS[finding.level])
    hint = f"  ({finding.hint})" if finding.hint else ""
    # One line per finding, whatever a server has to say.
    click.echo(f"{level}  {finding.check:20} {' '.join(f'{finding.message}{hint}'.split())}")


def _document(found: Sequence[Finding], counts: Counter[str]) -> dict[str, object]:
    return {"findings": [asdict(one) for one in found], "warned": counts["WARN"], "failed": counts["FAIL"]}
