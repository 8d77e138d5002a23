from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mutirao.cli.main import cli, exit_code
from mutirao.errors import Conflict, InvalidInput, MutiraoError, NotFound, SettingsError, StoreUnavailable
from mutirao.settings import Settings, gather, is_loopback, load_settings
from mutirao.settings.example import default, unit

ROOT = Path(__file__).parents[2]
MINIMAL = 'postgres = "postgresql:///x"\nredis = "unix:///run/r.sock"\n'


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in [name for name in os.environ if name.startswith("MUTIRAO_")]:
        monkeypatch.delenv(name)


def write(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "mutirao.toml"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_file_under_environment_under_overrides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, MINIMAL + 'slots = 2\nnode_name = "a"\nweb_port = 9000\n')
    monkeypatch.setenv("MUTIRAO_SLOTS", "3")
    monkeypatch.setenv("MUTIRAO_NODE_NAME", "b")
    settings = load_settings(path, {"node_name": "c", "web_port": None})
    assert (settings.slots, settings.node_name, settings.web_port) == (3, "c", 9000)
    assert settings.web_url == "http://127.0.0.1:9000"


def test_lists_in_the_environment_are_separated_by_commas(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUTIRAO_CHECKSUM_ROOTS", "/a, /b c,")
    assert load_settings(write(tmp_path, MINIMAL)).checksum_roots == [Path("/a"), Path("/b c")]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("slotz = 3", "unknown setting `slotz`, did you mean `slots`?"),
        ("slots = 0", "`slots`: Input should be greater than or equal to 1"),
        ('state_dir = "here"', "`state_dir`: must be an absolute path"),
        ('checksum_roots = ["here"]', "`checksum_roots`: must be an absolute path"),
        ('handlers_dir = "here"', "`handlers_dir`: must be an absolute path"),
        ('commands = ["/bin/ls", "ls"]', "`commands`: must be an absolute path"),
        ('http_hosts = ["example.org", "10.0.0.1/8"]', "`http_hosts`: '10.0.0.1/8' is no network"),
        ('redis_prefix = "a:b"', "`redis_prefix`"),
        ('web_host = "0.0.0.0"', "api_token is required when web_host is not a loopback address"),
        ('node_name = "a b"', "`node_name`"),
        ('log_level = "loud"', "`log_level`"),
        ("web_port = 70000", "`web_port`"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, MINIMAL + line))
    assert message in caught.value.message


def test_every_mistake_is_reported_at_once_and_no_secret_with_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(write(tmp_path, 'redis = "http://:hunter2@x"\nslots = "many"\n'))
    assert all(name in caught.value.message for name in ("`redis`", "`slots`", "`postgres` is required"))
    assert "MUTIRAO_POSTGRES" in caught.value.hint
    assert "hunter2" not in caught.value.message


def test_a_mistyped_variable_is_refused_and_foreign_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, MINIMAL)
    monkeypatch.setenv("MUTIRAO_CLUSTER", "an id")
    monkeypatch.setenv("MUTIRAO_RUN", "an id")
    monkeypatch.setenv("MUTIRAO_URL", "http://127.0.0.1:8080")
    monkeypatch.setenv("MUTIRAO_TOKEN", "t")
    load_settings(path)
    monkeypatch.setenv("MUTIRAO_SLOTZ", "3")
    with pytest.raises(SettingsError, match="did you mean `MUTIRAO_SLOTS`"):
        load_settings(path)


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_passwords_that_others_can_read_are_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path, MINIMAL, mode)
    with pytest.raises(SettingsError) as caught:
        load_settings(path)
    assert caught.value.hint == f"chmod 600 {path}"
    path.chmod(0o640)
    load_settings(path)


@pytest.mark.parametrize("text", ["slots = ", "\x00", "slots = 1\nslots = 2"])
def test_broken_toml_and_missing_files_are_settings_errors(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="not valid TOML"):
        load_settings(write(tmp_path, text))
    with pytest.raises(SettingsError, match="No such file"):
        load_settings(tmp_path / "none.toml")


def test_secrets_do_not_show_in_a_representation(tmp_path: Path) -> None:
    settings = load_settings(
        write(tmp_path, 'postgres="postgresql://u:hunter2@/x"\nredis="unix://:hunter2@/r.sock"\n')
    )
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("[::1]", True), ("localhost", True),
     ("0.0.0.0", False), ("example", False), ("localhost.example", False)],
)  # fmt: skip
def test_only_loopback_is_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def test_settings_check_speaks_and_exits(tmp_path: Path) -> None:
    good = CliRunner().invoke(cli, ["settings", "check", str(write(tmp_path, MINIMAL))])
    assert good.exit_code == 0
    assert "fine" in good.output
    bad = CliRunner().invoke(cli, ["settings", "check", str(write(tmp_path, MINIMAL + "slotz = 1"))])
    assert bad.exit_code == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MutiraoError("x"), 1),
        (InvalidInput("f", "x"), 2),
        (SettingsError("x"), 2),
        (StoreUnavailable("x"), 3),
        (NotFound("x"), 4),
        (Conflict("x"), 5),
    ],
)
def test_exit_codes(error: MutiraoError, code: int) -> None:
    assert exit_code(error) == code


def test_every_setting_is_documented_as_it_is() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = [
        f"| `{name}` | {default(name)} | {unit(name)} | `MUTIRAO_{name.upper()}` | {field.description} |"
        for name, field in Settings.model_fields.items()
    ]
    assert [line for line in page.splitlines() if line.startswith("| `")] == rows


def test_the_documented_example_is_valid(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    (text,) = re.findall(r"```toml\n(.+?)```", page, re.DOTALL)
    assert load_settings(write(tmp_path, text)).node_name == "edge-1"


def test_the_example_file_names_every_setting_and_is_valid_with_all_of_them(tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["settings", "example"]).output
    load_settings(write(tmp_path, printed))
    given = re.sub(r"^# (\w+ = )", r"\1", printed, flags=re.MULTILINE)
    assert set(gather(write(tmp_path, given))) == set(Settings.model_fields)
    load_settings(write(tmp_path, given))


def test_settings_show_tells_values_and_origins_and_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUTIRAO_SLOTS", "7")
    monkeypatch.setenv("MUTIRAO_API_TOKEN", "hunter3")
    path = write(tmp_path, 'postgres = "postgresql://u:hunter2@h/d"\nredis = "unix:///r"\nlog_json = true\n')
    shown = CliRunner().invoke(cli, ["settings", "show", "--config", str(path)]).output
    lines = {line.split()[0]: line.split()[1:] for line in shown.splitlines()}
    assert lines["slots"] == ["7", "MUTIRAO_SLOTS"]
    assert lines["log_json"] == ["true", str(path)]
    assert lines["web_port"] == ["8080", "default"]
    assert lines["postgres"] == ["(hidden)", str(path)]
    assert lines["api_token"] == ["(hidden)", "MUTIRAO_API_TOKEN"]
    assert "hunter" not in shown
    assert set(lines) == {"setting", *Settings.model_fields}
