"""Searches a Promela model with what spin makes of it, until the end or a violation.

Larger constants than the tests use: `python -m tests.model.spin beats.pml --memory 8000 LEASE=5 OUTAGE=9`.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).parent
# The largest search of `make test` needs a fifth of it.
MEMORY_MB = 1500
SECONDS = 100.0


@dataclass(frozen=True)
class Search:
    """What one search found; `complete` means that every reachable state was visited."""

    violated: bool
    complete: bool
    states: int
    output: str


def search(
    model: str, build: Path, *, memory: int = MEMORY_MB, seconds: float | None = SECONDS, **constants: int
) -> Search:
    """Searches breadth first, so that a violation is a shortest one; `constants` replace the model's own."""
    require_tools()
    defines = [f"-D{name}={value}" for name, value in constants.items()]
    _run(["spin", "-a", *defines, str(MODELS / model)], build, SECONDS)
    options = ["-DBFS", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={memory}"]
    _run(["gcc", "-O1", "-w", *options, "-o", "pan", "pan.c"], build, SECONDS)
    output = _run(["./pan"], build, seconds)
    found = re.search(r"errors: \d+\n\s+(\S+) states, stored", output)
    assert found, output
    cut_short = "Search not completed" in output or "MEMLIM" in output or "max search depth" in output
    return Search("assertion violated" in output, not cut_short, int(float(found[1])), output)


def require_tools() -> None:
    """Fails, never skips, with the line to type."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        raise AssertionError(f"the models need {', '.join(missing)}: apt-get install -y spin gcc libc6-dev")


def _run(command: list[str], build: Path, seconds: float | None) -> str:
    done = subprocess.run(command, cwd=build, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def main() -> None:
    """Searches once, without a bound on time, and says how it went."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.spin")
    parser.add_argument("model")
    parser.add_argument("constants", nargs="*", help="NAME=VALUE")
    parser.add_argument("--memory", type=int, default=MEMORY_MB, help="MB at most")
    options = parser.parse_args()
    constants = {name: int(value) for name, value in (text.split("=") for text in options.constants)}
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as build:
        found = search(options.model, Path(build), memory=options.memory, seconds=None, **constants)
    verdict = "violated" if found.violated else "no violation"
    extent = "complete" if found.complete else "not complete"
    print(f"{verdict}, {extent}: {found.states:,} states, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
