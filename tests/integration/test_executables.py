"""Programs as handlers, in real runners: what they are given, what is taken of them, how they end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from mutirao.agent.runners import Finished, Runners, Task
from mutirao.binding import contract_of
from mutirao.domain.job import Outcome
from mutirao.explaining import Schema
from mutirao.handlers.command import Command
from mutirao.registry import HandlerConfig
from tests.support.handlers_dir import handlers_dir, program
from tests.support.running import end_of, ends, error_of, pids_in, runners, submit, task

ENDS = """
payload=$(cat)
case "$payload" in
    *temporary*) exit 75 ;;
    *data*) exit 65 ;;
    *three*) echo "to standard error" >&2; exit 3 ;;
    *signal*) kill -SEGV $$ ;;
    *background*) sleep 600 & echo $! >"$(echo "$payload" | cut -d'"' -f4)" ;;
esac
"""
GRACEFUL = """
file=$(cut -d'"' -f2)
trap 'echo stopping >&2; exit 1' TERM
echo $$ >"$file.new"
mv "$file.new" "$file"
while :; do sleep 0.05; done
"""
SAYS = """
case $(cat) in
    *words*) echo hello ;;
    *endless*) yes ;;
    *text*) echo '"text"' ;;
    *nul*) echo '"\\u0000"' ;;
    *number*) echo ' 7 ' ;;
esac
"""
COUNT = {
    "type": "object",
    "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/item"}}},
    "required": ["items"],
    "additionalProperties": False,
    "$defs": {"item": {"type": "object", "properties": {"count": {"type": "integer"}}}},
}
SH = shutil.which("sh") or ""


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runners]:
    directory = handlers_dir(tmp_path_factory.mktemp("programs"))
    program(directory, "give_back", "cat")
    program(directory, "ends", ENDS)
    program(directory, "says", SAYS, result={"type": ["number", "null"]})
    program(directory, "count", "cat", payload=COUNT)
    program(directory, "deaf", "exit 0")
    names = "JOB_ID ATTEMPT IDEMPOTENCY_KEY TIMEOUT POSTGRES"
    fields = ", ".join(f'\\"{name}\\": \\"$MUTIRAO_{name}\\"' for name in names.split())
    program(directory, "environment", f'echo "{{{fields}}}"')
    config = HandlerConfig(directory=str(directory), commands=(SH,))
    program(directory, "stops", GRACEFUL, defaults={"cancel_grace": 30})
    program(directory, "stays", GRACEFUL.replace("exit 1", ":"), defaults={"cancel_grace": 1})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MUTIRAO_POSTGRES", "postgresql://secret")
        with runners(tmp_path_factory.mktemp("runtime"), config=config) as made:
            yield made


def _result(finished: Finished) -> Any:
    assert finished.outcome is Outcome.SUCCEEDED, finished.error
    return json.loads(finished.result or b"")


def test_a_payload_comes_back_to_the_digit(shared: Runners) -> None:
    raw = '{"n": 9007199254740993, "x": 1.10, "text": "é\\n\\u0041"}'.encode()
    finished = end_of(shared, Task(task("x").job_id, 1, "give_back", raw, 30.0))
    assert finished.result == raw


def test_large_payloads_arrive_whole_and_need_not_be_read(shared: Runners) -> None:
    payload = {"text": "x" * 1_000_000}
    assert _result(end_of(shared, task("give_back", payload))) == payload
    assert _result(end_of(shared, task("deaf", payload))) is None


def test_it_is_told_of_its_attempt_and_of_no_settings(shared: Runners) -> None:
    wanted = Task(task("x").job_id, 3, "environment", b"{}", 20.0)
    found = _result(end_of(shared, wanted))
    assert 0 < float(found.pop("TIMEOUT")) <= 20
    job = str(wanted.job_id)
    assert found == {"JOB_ID": job, "ATTEMPT": "3", "IDEMPOTENCY_KEY": job, "POSTGRES": ""}


@pytest.mark.parametrize(
    ("how", "error", "discard", "retry"),
    [
        ("three", {"type": "ExitStatus", "message": "exit status 3", "exit_status": 3}, False, False),
        ("temporary", {"type": "Retry", "message": "exit status 75", "exit_status": 75}, False, True),
        ("data", {"type": "Discard", "message": "exit status 65", "exit_status": 65}, True, False),
        ("signal", {"type": "ExitStatus", "message": "killed by SIGSEGV", "signal": "SIGSEGV"}, False, False),
    ],
)
def test_its_exit_status_says_how_it_ended(
    shared: Runners, how: str, error: dict[str, Any], discard: bool, retry: bool
) -> None:
    finished = end_of(shared, task("ends", {"how": how}))
    assert (finished.outcome, finished.discard) == (Outcome.FAILED, discard)
    assert error_of(finished) == error


def test_its_standard_error_is_the_attempts_output_and_its_result_is_not(shared: Runners) -> None:
    finished = end_of(shared, task("ends", {"how": "three"}))
    assert finished.output is not None
    assert finished.output.text() == "to standard error\n"
    assert end_of(shared, task("says", "number")).output is None


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("words", "not JSON"),
        ("text", 'result: "text" is not of types'),
        ("nul", "NUL"),
        ("endless", "exceeds 1048576 bytes"),
    ],
)
def test_a_result_that_is_none_costs_all_retries(shared: Runners, what: str, why: str) -> None:
    finished = end_of(shared, task("says", what))
    assert (finished.outcome, finished.discard) == (Outcome.FAILED, True)
    assert error_of(finished)["type"] == "ResultRefused"
    assert why in error_of(finished)["message"]


def test_no_output_is_null_and_space_around_a_result_is_none_of_it(shared: Runners) -> None:
    assert end_of(shared, task("says", "nothing")).result == b"null"
    assert end_of(shared, task("says", "number")).result == b"7"


def test_a_payload_that_does_not_fit_is_refused_by_its_field(shared: Runners) -> None:
    assert _result(end_of(shared, task("count", {"items": [{"count": 5.0}]})))
    finished = end_of(shared, task("count", {"items": [{"count": 1}, {"count": "2"}]}))
    assert finished.outcome is Outcome.REFUSED
    assert error_of(finished)["field"] == "items.1.count"


def test_what_it_leaves_in_the_background_neither_delays_nor_survives_it(
    shared: Runners, tmp_path: Path
) -> None:
    finished = end_of(shared, task("ends", {"background": str(tmp_path / "pid")}))
    assert _result(finished) is None
    assert [pid for pid in pids_in(tmp_path / "pid") if psutil.pid_exists(pid)] == []


def test_a_timeout_ends_it(shared: Runners, tmp_path: Path) -> None:
    script = f"echo $$ >{tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; trap '' TERM; sleep 600; sleep 600"
    finished = end_of(shared, task("command", {"argv": [SH, "-c", script]}, timeout=0.7))
    assert finished.outcome is Outcome.TIMED_OUT
    assert [pid for pid in pids_in(tmp_path / "pid") if psutil.pid_exists(pid)] == []


@pytest.mark.parametrize("name", ["stops", "stays"])
def test_a_cancel_is_a_sigterm_first_where_there_is_a_grace(
    shared: Runners, tmp_path: Path, name: str
) -> None:
    wanted = task(name, str(tmp_path / "pid"))
    submit(shared, wanted)
    pids = pids_in(tmp_path / "pid")
    assert shared.kill(wanted.job_id, 1, Outcome.CANCELLED)
    finished = ends(shared, 1)[wanted.job_id]
    assert finished.outcome is Outcome.CANCELLED
    assert finished.output is not None
    assert finished.output.text().count("stopping") == 1
    assert [pid for pid in pids if psutil.pid_exists(pid)] == []


def test_a_program_that_is_gone_fails_as_anything_does(tmp_path: Path) -> None:
    path = program(handlers_dir(tmp_path), "gone", "cat")
    with runners(tmp_path, count=1, config=HandlerConfig(directory=str(path.parent))) as made:
        assert end_of(made, task("gone")).outcome is Outcome.SUCCEEDED
        path.unlink()
        finished = end_of(made, task("gone"))
    assert (finished.outcome, finished.discard) == (Outcome.FAILED, False)
    assert error_of(finished)["type"] == "FileNotFoundError"


# -- command


def test_a_command_gets_its_arguments_and_its_input_unchanged(shared: Runners) -> None:
    argv = [SH, "-c", 'cat; printf "%s|" "$0" "$@"', "a b", "$HOME; *", ""]
    found = _result(end_of(shared, task("command", {"argv": argv, "stdin": "é\n"})))
    assert found == {"exit_status": 0, "stdout": "é\na b|$HOME; *||", "stdout_dropped": 0}


def test_of_much_output_the_end_is_kept_and_the_rest_counted(shared: Runners) -> None:
    script = "head -c 100000000 /dev/zero | tr '\\0' x; printf '\\377\\000end'"
    found = _result(end_of(shared, task("command", {"argv": [SH, "-c", script]})))
    assert found["stdout"].endswith("xxx\ufffd\ufffdend")
    assert len(found["stdout"].encode()) <= 64 * 1024
    # With its two replacement characters the last 64 KiB would be longer as text: a third of them is kept.
    assert found["stdout_dropped"] == 100_000_005 - 64 * 1024 // 3


@pytest.mark.parametrize(
    ("argv", "field"),
    [(["/bin/false"], "argv"), (["sh"], "argv"), ([SH + "/"], "argv"), ([], "argv"), ([SH, 1], "argv.1")],
)
def test_other_programs_are_refused_here_and_at_the_door(
    shared: Runners, argv: list[Any], field: str
) -> None:
    finished = end_of(shared, task("command", {"argv": argv}))
    assert finished.outcome is Outcome.REFUSED
    assert error_of(finished)["field"] == field
    door = Schema(contract_of(Command([SH])).payload_schema)
    assert door.faults({"argv": [SH, "-c", "true"]}) == []
    assert door.faults({"argv": argv}) != []


def test_a_command_fails_as_any_program_does(shared: Runners) -> None:
    finished = end_of(shared, task("command", {"argv": [SH, "-c", "exit 9"]}))
    assert error_of(finished) == {"type": "ExitStatus", "message": "exit status 9", "exit_status": 9}
    assert end_of(shared, task("command", {"argv": [SH, "-c", "exit 65"]})).discard
    finished = end_of(shared, task("command", {"argv": [SH, "-c", "echo inactive; exit 3"]}))
    assert error_of(finished)["stdout"] == "inactive\n"
    finished = end_of(shared, task("command", {"argv": [SH, "-c", "kill -40 $$"]}))
    assert error_of(finished)["signal"] == "signal 40"


def test_arguments_that_no_system_takes_cost_all_retries(shared: Runners) -> None:
    finished = end_of(shared, task("command", {"argv": [SH, "x" * 500_000]}))
    assert (error_of(finished)["type"], finished.discard) == ("Discard", True)
