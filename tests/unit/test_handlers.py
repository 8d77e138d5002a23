"""The built-in handlers, on real files."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from uuid import UUID

import pytest
from pydantic import ValidationError

from mutirao.binding import Bound, contract_of
from mutirao.contract import Context, Discard, PayloadRefused
from mutirao.errors import ContractError
from mutirao.handlers import built_in
from mutirao.handlers.checksum import Checksum, File
from mutirao.handlers.command import Command
from mutirao.handlers.echo import echo
from mutirao.handlers.fail import AskedToFail, Failures, fail
from mutirao.handlers.sleep import Nap, sleep
from mutirao.testing import attempt


def _attempt(number: int = 1) -> Context:
    return Context(UUID(int=1), number)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "deep").mkdir(parents=True)
    (tmp_path / "root" / "file").write_bytes(b"x" * 3_000_000)
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "root"


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "sha3_256", "blake2b", "blake2s"])
def test_checksum_of_a_file_below_a_root(root: Path, algorithm: str) -> None:
    payload = File.model_validate({"path": str(root / "deep" / ".." / "file"), "algorithm": algorithm})
    digest = Checksum([str(root)]).run(payload, _attempt())
    assert digest.digest == hashlib.new(algorithm, b"x" * 3_000_000).hexdigest()
    assert digest.size == 3_000_000


def test_checksum_follows_links_that_stay_inside_and_roots_that_are_links(root: Path) -> None:
    (root / "inside").symlink_to("file")
    (root.parent / "alias").symlink_to(root)
    digest = Checksum([str(root.parent / "alias")]).run(File(path=str(root / "inside")), _attempt())
    assert digest.size == 3_000_000


@pytest.mark.parametrize("how", ["dots", "link", "directory_link", "sibling", "absolute"])
def test_checksum_reads_nothing_outside(root: Path, how: str) -> None:
    (root / "link").symlink_to(root.parent / "secret")
    (root / "up").symlink_to(root.parent)
    (root.parent / "rootless").write_text("a sibling whose name begins like the root's")
    path = {
        "dots": root / ".." / "secret",
        "link": root / "link",
        "directory_link": root / "up" / "secret",
        "sibling": root.parent / "rootless",
        "absolute": Path("/etc/passwd"),
    }[how]
    with pytest.raises(Discard, match="allowed root"):
        Checksum([str(root)]).run(File(path=str(path)), _attempt())


def test_checksum_is_not_fooled_by_a_directory_swapped_after_the_look(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "deep" / "secret").write_text("harmless")
    real = os.open

    def swap_then_open(path: str, flags: int) -> int:
        (root / "deep").rename(root / "was")
        (root / "deep").symlink_to(root.parent)
        return real(path, flags)

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(Discard, match="allowed root"):
        Checksum([str(root)]).run(File(path=str(root / "deep" / "secret")), _attempt())


def test_checksum_of_what_is_no_file_ends_at_once(root: Path) -> None:
    os.mkfifo(root / "fifo")
    for name in ("fifo", "deep"):
        with pytest.raises(Discard, match="not a regular file"):
            Checksum([str(root)]).run(File(path=str(root / name)), _attempt())


def test_checksum_without_roots_reads_nothing(root: Path) -> None:
    with pytest.raises(Discard, match="checksum_roots"):
        Checksum([]).run(File(path=str(root / "file")), _attempt())


def test_checksum_of_a_missing_file_may_be_tried_again(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Checksum([str(root)]).run(File(path=str(root / "later")), _attempt())


@pytest.mark.parametrize(
    "wrong", [{"path": "relative"}, {"path": "/a\0b"}, {"path": "/a", "algorithm": "md4"}]
)
def test_checksum_refuses(wrong: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        File.model_validate(wrong)


@pytest.mark.parametrize(
    "message", [b"9007199254740993", b'"\\u20ac \\\\u0000"', b"null", b"[1.5,{}]", b"1" * 4000]
)
def test_echo_gives_back_what_it_got(message: bytes) -> None:
    bound = Bound(echo)
    out = bound.call(bound.parse(b'{"message":' + message + b"}"), _attempt())
    assert bound.parse(out) == bound.parse(b'{"message":' + message + b"}")


def test_a_command_that_others_can_change_is_not_run(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    command = Command([str(program)])
    assert attempt(command, {"argv": [str(program)]})["exit_status"] == 0
    program.chmod(0o777)
    for use in (lambda: attempt(command, {"argv": [str(program)]}), lambda: Command([str(program)])):
        with pytest.raises(ContractError, match="written to by others"):
            use()
    with pytest.raises(ContractError, match="is not a file"):
        Command([str(tmp_path)])


def test_fail_always() -> None:
    with pytest.raises(AskedToFail):
        fail.run(Failures(), _attempt(99))


def test_fail_as_often_as_asked_then_succeed() -> None:
    for number in (1, 2):
        with pytest.raises(AskedToFail):
            fail.run(Failures(times=2), _attempt(number))
    assert fail.run(Failures(times=2), _attempt(3)).attempt == 3


def test_sleep_bounds() -> None:
    assert sleep.run(Nap(seconds=0), _attempt()).seconds == 0
    for raw in (b'{"seconds":-1}', b'{"seconds":1e9}', b'{"seconds":"1"}', b'{"seconds":null}'):
        with pytest.raises(PayloadRefused) as refused:
            Bound(sleep).parse(raw)
        assert refused.value.field == "seconds"


def test_every_built_in_forbids_unknown_fields() -> None:
    for make in built_in([]).values():
        assert contract_of(make()).payload_schema["additionalProperties"] is False
