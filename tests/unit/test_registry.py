"""Finding handlers: built-ins, modules, files; names taken twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mutirao.errors import ContractError
from mutirao.registry import HandlerConfig, load_registry

GREETER = """
from mutirao.contract import Context, HandlerDefaults, Payload, handler
from mutirao.handlers.echo import echo  # imported, not defined here

class Name(Payload):
    name: str

@handler("greet")
def greet(payload: Name) -> str:
    return f"Olá, {payload.name}"

class Farewell:
    name = "farewell"
    payload_type = Name
    result_type = str
    defaults = HandlerDefaults()

    def run(self, payload: Name, context: Context) -> str:
        return f"Tchau, {payload.name}"
"""


def _module(directory: Path, text: str, name: str = "greeter.py") -> str:
    path = directory / name
    path.write_text(text)
    return str(path)


def test_the_built_ins_are_always_there() -> None:
    registry = load_registry(HandlerConfig())
    assert registry.names() == ["checksum", "echo", "fail", "sleep"]
    assert [contract.handler for contract in registry.contracts()] == registry.names()
    assert registry.bound("nobody") is None


def test_what_a_node_does_not_offer_costs_its_runners_nothing() -> None:
    script = "import sys; from mutirao.registry import *; load_registry(HandlerConfig()); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    heavy = {"httpx", "jsonschema_rs", "subprocess", "mutirao.settings"}
    assert heavy & set(loaded.stdout.split()) == set()


def test_a_files_functions_and_classes_are_found_and_its_imports_are_not(tmp_path: Path) -> None:
    registry = load_registry(HandlerConfig(modules=(_module(tmp_path, GREETER),)))
    assert {"greet", "farewell"} < set(registry.names())
    bound = registry.bound("greet")
    assert bound is not None
    assert bound.call(bound.parse(b'{"name":"x"}'), None) == '"Olá, x"'.encode()  # type: ignore[arg-type]


def test_a_module_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _module(tmp_path, GREETER, "greeter_by_name.py")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_registry(HandlerConfig(modules=("greeter_by_name",))).bound("greet") is not None


def _package(directory: Path, points: str) -> None:
    about = directory / "greeters-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: greeters\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[mutirao.handlers]\n{points}\n")
    _module(directory, GREETER, "greeters_of_a_package.py")


@pytest.mark.parametrize(
    ("point", "found"),
    [("", {"greet", "farewell"}), (":greet", {"greet"}), (":Farewell", {"farewell"})],
)
def test_entry_points_name_modules_functions_and_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, found: set[str]
) -> None:
    _package(tmp_path, f"ours = greeters_of_a_package{point}")
    monkeypatch.syspath_prepend(tmp_path)
    names = set(load_registry(HandlerConfig()).names())
    assert names & {"greet", "farewell"} == found


@pytest.mark.parametrize(
    ("point", "says"),
    [
        ("nowhere", "entry point ours cannot be imported: ModuleNotFoundError"),
        ("greeters_of_a_package:nothing", "entry point ours cannot be imported: AttributeError"),
        ("greeters_of_a_package:Name", "entry point ours"),
        ("pathlib:Path", "entry point ours: is no handler"),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, says: str
) -> None:
    _package(tmp_path, f"ours = {point}")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ContractError) as refused:
        load_registry(HandlerConfig())
    assert says in refused.value.message


def test_a_name_taken_twice_is_refused_and_both_are_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    modules = (_module(tmp_path, GREETER), _module(other, GREETER))
    with pytest.raises(ContractError) as refused:
        load_registry(HandlerConfig(modules=modules))
    assert all(module in refused.value.message for module in modules)


def test_a_built_in_cannot_be_replaced(tmp_path: Path) -> None:
    module = _module(tmp_path, GREETER.replace('"greet"', '"echo"'))
    with pytest.raises(ContractError, match="the built-in echo"):
        load_registry(HandlerConfig(modules=(module,)))


def test_paths_are_made_absolute_since_runners_work_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    config = HandlerConfig(checksum_roots=("data",), modules=("greeter.py", "a.module"))
    assert config.checksum_roots == (str(tmp_path / "data"),)
    assert config.modules == (str(tmp_path / "greeter.py"), "a.module")
