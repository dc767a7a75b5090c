"""Findings of `lake check` about temporary credentials."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.lake.lakes import app
from penstock.errors import LakeError
from penstock.home import Home
from penstock.lake.checks.probes import Probes, TemporaryCredentials
from penstock.lake.checks.verdicts import Outcome, judge_temporary
from penstock.lake.model import Credentials, Lake, Sts
from penstock.lake.registry import Lakes
from tests.support.tiny_sts import Asked, Refused, TinySts, serving

OWN = Credentials("AKOWN", "own-secret")


@pytest.fixture
def sts() -> Iterator[TinySts]:
    with serving(TinySts()) as running:
        yield running


def refuse(_: Asked) -> tuple[str, str, str]:
    raise Refused(501, "NotImplemented")


def probed(sts: TinySts, asks: Sts | None) -> TemporaryCredentials:
    return Probes(Lake("sales", (sts.url,), "data", "file:sales", sts=asks), OWN, "p/").temporary_credentials()


def test_a_store_that_issues_none_gives_every_application_the_lakes_own(sts: TinySts) -> None:
    sts.answer = refuse
    judged = judge_temporary(probed(sts, None))
    assert judged.outcome is Outcome.LIMITED
    assert "NotImplemented" in judged.measured
    assert judged.consequence == "gives every application the lake's own credentials"


def test_a_store_that_can_issue_temporary_credentials_is_reported_with_the_options(sts: TinySts) -> None:
    judged = judge_temporary(probed(sts, None))
    assert judged.outcome is Outcome.LIMITED
    assert "--role-arn" in judged.consequence


def test_a_store_that_should_and_does_not_is_a_failure(sts: TinySts) -> None:
    sts.answer = refuse
    with pytest.raises(LakeError, match="issues no credentials"):
        probed(sts, Sts(sts.url))


def test_issued_ones_list_and_delete(sts: TinySts) -> None:
    found = probed(sts, Sts(sts.url, "arn:aws:iam:::role/penstock"))
    assert (found.issued, found.confined, found.escapable, found.deletes_many) == (True, True, False, True)


def test_a_store_that_gives_more_to_whoever_has_them_is_reported_with_the_remedy(sts: TinySts) -> None:
    sts.gives_more = True
    judged = judge_temporary(probed(sts, Sts(sts.url, "arn:aws:iam:::role/penstock")))
    assert judged.outcome is Outcome.LIMITED
    assert "for all that the role may" in judged.measured
    assert "let the role's trust policy deny the role itself" in judged.consequence


@pytest.mark.parametrize("answer", [(403, "AccessDenied"), (200, "AccessDenied"), (501, "NotImplemented")])
def test_a_store_without_bulk_delete_is_reported(sts: TinySts, answer: tuple[int, str]) -> None:
    sts.refuses_deletes = answer
    found = probed(sts, Sts(sts.url, "arn:aws:iam:::role/penstock"))
    assert not found.deletes_many
    judged = judge_temporary(found)
    assert judged.outcome is Outcome.OK
    assert "one object at a time" in judged.measured


def test_issued_ones_are_said_to_be_for_the_bucket_only_where_they_are() -> None:
    for confined, words in ((True, "limited to this bucket"), (False, "the rights of the lake's user")):
        judged = judge_temporary(TemporaryCredentials(configured=True, issued=True, seconds=900.2, confined=confined))
        assert judged.outcome is Outcome.OK
        assert words in judged.consequence
        assert "900 s" in judged.measured


ROLE = "arn:aws:iam:::role/penstock"


@pytest.mark.parametrize(("refusal", "many"), [(None, True), ((403, "AccessDenied"), False)])
def test_a_lake_that_is_tried_is_known_to_delete_many_objects_at_once_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, str] | None, many: bool
) -> None:
    monkeypatch.setenv("PENSTOCK_HOME", str(tmp_path))
    with serving(TinySts(refuses_deletes=refusal)) as store:
        added = ("add", "sales", "--endpoint", store.url, "--bucket", "data", "--credentials-from-stdin")
        result = CliRunner().invoke(app, [*added, "--role-arn", ROLE], input="AKID\ns3cret\n")
    assert result.exit_code == 0, result.output
    assert Lakes(Home(tmp_path)).get("sales").sts == Sts(store.url, ROLE, 3600, deletes_many=many)
