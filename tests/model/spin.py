"""Searches a Promela model with what spin makes of it, until the end or a violation."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MODELS = Path(__file__).parent
# 84 bytes a state; the searches of `make test` need less than a tenth of it.
MEMORY_MB = 1500
SECONDS = 100


@dataclass(frozen=True)
class Search:
    """What one search found; `complete` means that every reachable state was visited."""

    violated: bool
    complete: bool
    states: int
    output: str


def search(model: str, build: Path, **constants: int) -> Search:
    """Searches breadth first, so that a violation is a shortest one; `constants` replace the model's own."""
    require_tools()
    defines = [f"-D{name}={value}" for name, value in constants.items()]
    _run(["spin", "-a", *defines, str(MODELS / model)], build)
    options = ["-DBFS", "-DSAFETY", "-DNOREDUCE", f"-DMEMLIM={MEMORY_MB}"]
    _run(["gcc", "-O1", "-w", *options, "-o", "pan", "pan.c"], build)
    output = _run(["./pan"], build)
    found = re.search(r"errors: (\d+)\n\s+(\d+) states, stored", output)
    assert found, output
    cut_short = "Search not completed" in output or "MEMLIM" in output or "max search depth" in output
    return Search("assertion violated" in output, not cut_short, int(found[2]), output)


def require_tools() -> None:
    """Fails, never skips, with the line to type."""
    missing = [tool for tool in ("spin", "gcc") if shutil.which(tool) is None]
    if missing:
        raise AssertionError(f"the models need {', '.join(missing)}: apt-get install -y spin gcc libc6-dev")


def _run(command: list[str], build: Path) -> str:
    done = subprocess.run(command, cwd=build, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout
