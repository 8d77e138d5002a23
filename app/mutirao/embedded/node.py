"""One node of a cluster on this machine: its settings file, its agent and its web server."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutirao.embedded import orphans
from mutirao.embedded.children import Child
from mutirao.embedded.directory import ClusterDirectory
from mutirao.embedded.ports import HOST
from mutirao.embedded.process import Process, spawn
from mutirao.settings import inherited_environment


@dataclass(frozen=True, slots=True)
class Node:
    """A node's children and addresses."""

    name: str
    port: int
    agent_port: int
    agent: Child
    web: Child

    @property
    def url(self) -> str:
        """Where its web server answers."""
        return f"http://{HOST}:{self.port}"

    def describe(self) -> dict[str, Any]:
        """Its entry in up.json."""
        return {
            "name": self.name,
            "agent": self.agent.pid,
            "web": self.web.pid,
            "url": self.url,
            "metrics": f"http://{HOST}:{self.agent_port}/metrics",
        }


def prepare(
    directory: ClusterDirectory, number: int, shared: Mapping[str, object], *, port: int, agent_port: int,
    restart: bool,
) -> Node:  # fmt: skip
    """Writes the settings of node `number` and says how to start it; nothing runs yet."""
    name = f"node-{number}"
    home = directory.node(number)
    values = {
        **shared,
        "node_name": name,
        "state_dir": str(_private(home / "state")),
        "runtime_dir": str(_private(directory.runtime / name)),
        "web_host": HOST,
        "web_port": port,
        "web_url": f"http://{HOST}:{port}",
        "web_workers": 1,
        "agent_port": agent_port,
    }
    config = home / "mutirao.toml"
    _write_settings(config, values)
    environment = {**inherited_environment(values), orphans.MARKER: directory.mark}

    def child(verb: str, *, restart: bool) -> Child:
        log = directory.logs / f"{name}-{verb}.log"

        def launch() -> Process:
            argv = [sys.executable, "-m", "mutirao", verb, "--config", str(config)]
            return spawn(argv, log=log, env=environment, death_signal=signal.SIGKILL)

        return Child(f"{name} {verb}", launch, restart, log)

    return Node(name, port, agent_port, child("agent", restart=restart), child("web", restart=True))


def _private(path: Path) -> Path:
    path.mkdir(exist_ok=True, mode=0o700)
    return path


def _write_settings(path: Path, values: Mapping[str, object]) -> None:
    # Strings, numbers, booleans and lists are written alike in JSON and TOML.
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()]
    scratch = path.with_suffix(".new")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.writelines(["# Written by `mutirao up` at every start.\n", *lines])
    scratch.rename(path)
