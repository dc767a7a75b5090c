from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penstock.cli.lake.lakes import app
from penstock.engine.engine import Engine
from penstock.errors import InvalidInput, LakeError, NotFound, PenstockError
from penstock.home import Home
from penstock.lake import sweep
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import Lakes
from penstock.model import Application, ApplicationSpec, ClusterSize, ProcessSize, State

ADD = ["add", "sales", "--endpoint", "http://a.example:9000", "--endpoint", "http://b.example:9000", "--bucket", "data"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(app, arguments, input=given)


def refused(result: Result, kind: type[PenstockError]) -> PenstockError:
    assert isinstance(result.exception, kind), result.output
    return result.exception


def test_credentials_from_stdin_are_stored_privately_and_never_printed(home: Home) -> None:
    result = run(*ADD, "--credentials-from-stdin", "--no-check", given="AKID\ns3cret\n")
    assert result.exit_code == 0, result.output
    assert "s3cret" not in result.output
    lake = Lakes(home).get()
    assert lake.endpoints == ("http://a.example:9000", "http://b.example:9000")
    assert Lakes(home).credentials_of(lake) == Credentials("AKID", "s3cret")


def test_credentials_of_the_environment_are_referred_to_and_not_copied(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    assert run(*ADD, "--no-check").exit_code == 0
    assert Lakes(home).get().credentials == "environment"
    assert not any("s3cret" in path.read_text() for path in home.root.rglob("*") if path.is_file())


def test_an_aws_profile_is_referred_to(home: Home) -> None:
    assert run(*ADD, "--aws-profile", "ceph", "--no-check").exit_code == 0
    assert Lakes(home).get().credentials == "aws:ceph"


def test_missing_credentials_without_a_terminal_are_reported_with_the_options(home: Home) -> None:
    error = refused(run(*ADD, "--no-check"), InvalidInput)
    assert "--aws-profile" in error.why


def test_no_option_takes_a_secret(home: Home) -> None:
    described = run("add", "--help").output
    assert "--secret" not in described
    assert "--access-key" not in described


def test_the_help_names_every_line_that_standard_input_may_have(home: Home) -> None:
    assert "session token" in " ".join(run("add", "--help").output.split())
    given = "k\ns\nt\n"
    assert run(*ADD, "--credentials-from-stdin", "--no-check", given=given).exit_code == 0
    lakes = Lakes(home)
    assert lakes.credentials_of(lakes.get()).session_token == "t"


def test_a_lake_that_does_not_answer_is_not_stored(home: Home) -> None:
    arguments = ["add", "x", "--endpoint", "http://127.0.0.1:1", "--bucket", "data", "--credentials-from-stdin"]
    refused(run(*arguments, given="k\ns\n"), LakeError)
    assert Lakes(home).all() == []
    assert not (home.lake / "credentials").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ["add", "x", "--endpoint", "store:9000", "--bucket", "data"],
        ["add", "x", "--endpoint", "http://store", "--bucket", "No Bucket"],
        ["add", "a name", "--endpoint", "http://store", "--bucket", "data"],
        ["add", "embedded", "--endpoint", "http://store", "--bucket", "data"],
        [*ADD, "--aws-profile", "p", "--credentials-from-stdin"],
        ["remove", "embedded"],
    ],
)
def test_bad_input_is_refused_before_anything_is_stored(home: Home, arguments: list[str]) -> None:
    assert refused(run(*arguments), InvalidInput).fix
    assert Lakes(home).all() == []


def test_the_list_shows_the_default_and_is_json_on_demand(home: Home) -> None:
    assert "penstock lake up" in run("list").output
    run(*ADD, "--aws-profile", "p", "--no-check")
    assert "sales" in run("list").output
    listed = json.loads(run("list", "--json").output)
    assert [(lake["name"], lake["default"]) for lake in listed] == [("sales", True)]


def test_default_and_remove_of_an_unknown_lake_are_errors(home: Home) -> None:
    for command in ("default", "remove"):
        refused(run(command, "nowhere"), NotFound)


def test_the_status_of_a_lake_never_started_is_no_error_and_not_ready(home: Home) -> None:
    result = run("status", "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["running"] is False
    assert run("down").exit_code == 0


def test_a_uri_of_another_bucket_is_refused(home: Home) -> None:
    run(*ADD, "--aws-profile", "p", "--no-check")
    assert "data" in refused(run("ls", "s3a://other/x"), InvalidInput).why


def test_get_replaces_no_file_unasked(home: Home, tmp_path: Path) -> None:
    run(*ADD, "--credentials-from-stdin", "--no-check", given="AKID\ns3cret\n")
    kept = tmp_path / "kept file"
    kept.write_text("mine")
    assert "--force" in refused(run("get", "some/key", str(kept)), InvalidInput).fix
    assert kept.read_text() == "mine"


ROLE = "arn:aws:iam:::role/penstock"


def test_a_sweep_keeps_what_an_application_on_another_lake_with_the_same_bucket_writes(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lakes(home).add(Lake("sales", ("http://a.example:9000",), "data", ""), Credentials("key", "secret"))
    begun = datetime.now(timezone.utc) - timedelta(days=3)
    size = ProcessSize(1, 1 << 30)
    spec = ApplicationSpec("a.py", ClusterSize(size, size, 1), "a", lake="sales.0123")
    running = Application("app-1", spec, State.RUNNING, submitted_at=begun)
    seen: list[datetime] = []

    def swept(*_: object, before: datetime, dry_run: bool) -> sweep.SweepReport:
        assert not dry_run
        seen.append(before)
        return sweep.SweepReport(0, ())

    monkeypatch.setattr(Engine, "__init__", lambda *_: None)
    monkeypatch.setattr(Engine, "list", lambda *_, **__: [running])
    monkeypatch.setattr(sweep, "sweep", swept)
    assert json.loads(run("sweep", "--lake", "sales", "--json").output)["running"] == "app-1"
    assert seen == [begun]


def test_a_role_is_asked_for_at_the_first_endpoint_unless_another_is_named(home: Home) -> None:
    given = {"given": "AKID\ns3cret\n"}
    added = run(*ADD, "--credentials-from-stdin", "--no-check", "--role-arn", ROLE, **given)
    assert "credentials of their own" in added.output
    assert Lakes(home).get("sales").sts == Sts("http://a.example:9000", ROLE, 3600)
    run(*ADD, "--credentials-from-stdin", "--no-check", "--sts-endpoint", "http://sts:1", **given)
    assert Lakes(home).get("sales").sts == Sts("http://sts:1", None, 3600)
    run(*ADD, "--credentials-from-stdin", "--no-check", **given)
    assert Lakes(home).get("sales").sts is None


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--role-arn", "penstock"], "cannot be a role"),
        (["--role-arn", "arn:aws:iam::1:user/me"], "cannot be a role"),
        (["--role-arn", f"{ROLE}\nx"], "cannot be a role"),
        (["--role-arn", ROLE, "--session-seconds", "5"], "cannot be valid for 5 s"),
        (["--role-arn", ROLE, "--session-seconds", "100000"], "cannot be valid for 100000 s"),
        (["--role-arn", ROLE, "--sts-endpoint", "ftp://x"], "ftp://x"),
        (["--ca-file", "/nowhere/ca.pem"], "contains no valid certificates"),
    ],
)
def test_what_cannot_be_a_role_a_time_or_an_authority_is_refused(home: Home, options: list[str], problem: str) -> None:
    result = run(*ADD, "--credentials-from-stdin", "--no-check", *options, given="AKID\ns3cret\n")
    assert problem in refused(result, InvalidInput).problem
    assert Lakes(home).all() == []


def test_a_store_that_does_not_issue_what_it_should_is_not_added(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.lake.checks.verdicts.require_reachable", lambda *_: None)
    monkeypatch.setattr("penstock.lake.checks.verdicts.directories_linger", lambda *_: False)
    dead = "http://127.0.0.1:1"
    options = ["add", "sales", "--endpoint", dead, "--bucket", "data", "--sts-endpoint", dead]
    assert "cannot be reached" in refused(run(*options, "--credentials-from-stdin", given="A\nB\n"), LakeError).problem
    assert Lakes(home).all() == []


def test_show_tells_how_a_lake_is_reached_and_what_applications_get(home: Home) -> None:
    run(*ADD, "--credentials-from-stdin", "--no-check", "--virtual-host", "--role-arn", ROLE, given="AKID\ns3cret\n")
    shown = run("show").output
    for words in ("http://b.example:9000", "in the host name", "region us-east-1", "the public ones", ROLE, "3600 s"):
        assert words in shown
    assert "s3cret" not in shown
    assert json.loads(run("show", "sales", "--json").output)["sts"]["role_arn"] == ROLE
    refused(run("show", "other"), NotFound)


@pytest.mark.parametrize("name", ["missing/lake.sql", "directory"])
def test_an_export_that_cannot_be_written_is_the_users_and_no_defect(home: Home, tmp_path: Path, name: str) -> None:
    run(*ADD, "--credentials-from-stdin", "--no-check", given="AKID\ns3cret\n")
    (tmp_path / "directory").mkdir()
    error = refused(run("export", "client", "duckdb", "--lake", "sales", "-o", str(tmp_path / name)), InvalidInput)
    assert error.why and "--output" in error.fix
